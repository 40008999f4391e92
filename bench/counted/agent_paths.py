"""The agent's path from the lines of a file to a finished batch: split, pack, close."""

import json
from itertools import count
from pathlib import Path

from agent.accounting.runs import Progress, SourceId
from agent.configuration.config import Times
from agent.configuration.inputs import Format, Input
from agent.configuration.lines import Time
from agent.encoding.batches.packer import Packer
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from agent.encoding.events.reader import EventReader
from bench.contents.log_lines import LINE_BYTES, REQUEST_SCHEMA, Line, block, json_line, plain_line
from bench.counted.paths import Act
from schemas.parsing import AvroSchema, parse

_LINES = 1_000
_NOW = 1_790_000_100_000


def plain_lines(_: Path) -> Act:
    return _packed(plain_line, Input(paths=("/var/log/app.log",), topic="logs"), None)


def json_lines(_: Path) -> Act:
    schema = parse(json.dumps(REQUEST_SCHEMA))
    time = Time(field="ts")
    input_config = Input(
        paths=("/var/log/app.log",), topic="requests", format=Format.JSON, time=time
    )
    return _packed(json_line, input_config, schema)


def _packed(line: Line, input_: Input, schema: AvroSchema | None) -> Act:
    reader = EventReader(input_, schema, Times())
    plan = TopicPlan(input_.topic, 7, 8, "web-17", plain=schema is None)
    source = SourceHeader(SourceId("aaaa"), "/var/log/app.log", "shop")
    packer = Packer(plan, clock=lambda: 0.0)
    chunk = block(line)[: _LINES * LINE_BYTES]

    def act(times: int) -> None:
        for _ in range(times):
            cut = reader.cut(chunk, 0, now_millis=_NOW, final=True)
            packed_lines = packer.add(source, cut, Progress(0, 0, 0), cut.consumed)
            packer.close(_NOW, count(1).__next__)
            if packed_lines != Progress(len(chunk), _LINES, 0):
                raise RuntimeError(f"expected {_LINES} packed lines, got {packed_lines}")

    return act
