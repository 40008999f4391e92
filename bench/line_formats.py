"""Compares formats of lines: `python -m bench.line_formats`, on one core, without a broker.

Lines go from bytes to finished batches, as in an agent. Each format has lines of 200 bytes; `regex`
has those of `nginx`, with a pattern that a user would write, and the schema of `nginx`.
"""

import json
import random
import time
from datetime import UTC, datetime
from itertools import count
from typing import Final

from agent.accounting.runs import Progress, SourceId
from agent.configuration.config import Times
from agent.configuration.inputs import Format, Input
from agent.configuration.lines import Time
from agent.encoding.batches.packer import Packer
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from agent.encoding.bodies.tail_encoder import path_is_framed
from agent.encoding.events.reader import EventReader
from agent.encoding.topic_schemas.values import BUILT_IN_FOR, wanted_for
from bench.contents.log_lines import REQUEST_SCHEMA, Line, block, filled, json_line
from schemas.event_schemas import ACCESS_LINE, built_in
from schemas.parsing import AvroSchema, parse

_NOW: Final = 1_790_000_100_000
_ROUNDS: Final = 5
_PATTERN: Final = (
    r'(?P<client>\S+) \S+ (?P<user>\S+) \[(?P<at>[^]]+)\] "(?P<method>\S+) (?P<target>\S+) '
    r'(?P<protocol>[^"]*)" (?P<status>\d+) (?P<bytes>\d+|-) "(?P<referrer>[^"]*)" '
    r'"(?P<user_agent>[^"]*)"'
)


def _at(millis: int, pattern: str) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime(pattern)


def access_line(millis: int, rng: random.Random) -> bytes:
    return filled(
        f"10.0.{rng.randrange(256)}.{rng.randrange(256)} - - [{_at(millis, '%d/%b/%Y:%H:%M:%S')} "
        f'+0000] "GET /api/v2/orders/{rng.randrange(10**6)} HTTP/1.1" '
        f'{rng.choice((200, 200, 304, 404))} {rng.randrange(10**6)} "https://www.example/" '
        '"Mozilla/5.0 (X11; Linux x86_64) ',
        '"',
        rng,
    )


def haproxy_line(millis: int, rng: random.Random) -> bytes:
    return filled(
        f"{_at(millis, '%Y-%m-%dT%H:%M:%S')}+00:00 lb1 haproxy[812]: 10.0.1.2:"
        f"{rng.randrange(65536)} [{_at(millis, '%d/%b/%Y:%H:%M:%S')}.{millis % 1000:03}] web "
        f"app/a{rng.randrange(9)} 0/0/1/{rng.randrange(900)}/{rng.randrange(900)} 200 "
        f"{rng.randrange(10**6)} - - ---- "
        f'9/9/3/1/0 0/0 "GET /api?t=',
        ' HTTP/1.1"',
        rng,
    )


def postgresql_line(millis: int, rng: random.Random) -> bytes:
    return filled(
        f"{_at(millis, '%Y-%m-%d %H:%M:%S')}.{millis % 1000:03} UTC [{rng.randrange(30_000)}] "
        f"shop@orders LOG:  duration: {rng.uniform(0, 9):.3f} ms  statement: select ",
        "",
        rng,
    )


def lines_per_second(line: Line, input_: Input, schema: AvroSchema) -> float:
    """The best of some rounds."""
    reader = EventReader(input_, schema, Times())
    plan = TopicPlan(input_.topic, 7, 8, "web-17", plain=False, with_path=path_is_framed(schema))
    packer = Packer(plan, clock=lambda: 0.0)
    source = SourceHeader(SourceId("aaaa"), "/var/log/app.log", "shop")
    chunk = block(line)
    line_count = chunk.count(b"\n")
    rates = []
    for _ in range(_ROUNDS):
        position, begin = 0, time.process_time()
        while position < len(chunk):
            cut = reader.cut(chunk[position : position + 2**18], 0, now_millis=_NOW, final=False)
            packer.add(source, cut, Progress(0, 0, 0), cut.consumed)
            packer.close(_NOW, count(1).__next__)
            if cut.dead:
                raise RuntimeError(f"{input_.format}: {cut.dead[0].reason}")
            position += cut.consumed
            if not cut.consumed:
                break
        rates.append(line_count / (time.process_time() - begin))
    return max(rates)


def main() -> None:
    def input_of(format_: Format, **keys: object) -> Input:
        return Input(paths=("/var/log/a.log",), topic="logs", format=format_, **keys)  # type: ignore[arg-type]

    regex = input_of(
        Format.REGEX, pattern=_PATTERN, time=Time(field="at", format="%d/%b/%Y:%H:%M:%S %z")
    )
    cases: list[tuple[Line, Input, AvroSchema]] = [
        (
            json_line,
            input_of(Format.JSON, time=Time(field="ts")),
            parse(json.dumps(REQUEST_SCHEMA)),
        ),
        (access_line, regex, built_in(ACCESS_LINE)),
    ]
    presets: dict[Format, Line] = {
        Format.NGINX: access_line,
        Format.HAPROXY: haproxy_line,
        Format.POSTGRESQL: postgresql_line,
    }
    for format_, line in presets.items():
        input_ = input_of(format_)
        cases.append((line, input_, built_in(BUILT_IN_FOR[wanted_for(input_).purpose])))
    for line, input_, schema in cases:
        print(f"{input_.format:<12}{lines_per_second(line, input_, schema):>12,.0f} lines/s")


if __name__ == "__main__":
    main()
