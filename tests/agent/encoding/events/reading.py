"""A file read as the agent's pipeline reads it, in pieces of any size, and what came of it."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from agent.accounting.cuts import Cut, DeadLine
from agent.accounting.runs import Fate
from agent.configuration.config import Times
from agent.configuration.inputs import Input
from agent.encoding.events.reader import EventReader
from agent.reading.intake import one_after_the_other
from schemas.event_schemas import scaffold
from schemas.parsing import AvroSchema, parse

NOW = 1_795_185_000_000  # 2026-11-20 14:30 UTC


def input_of(**given: Any) -> Input:
    return Input(**{"paths": ("/var/log/app.log",), "topic": "logs", **given})


def schema_of(**fields: Any) -> AvroSchema:
    """Of types by name; one in a tuple has a default beside it."""
    types = {
        name: type_[0] if isinstance(type_, tuple) else type_ for name, type_ in fields.items()
    }
    schema = json.loads(scaffold("shop.Event", types))
    for each in schema["fields"]:
        if isinstance(fields.get(each["name"]), tuple):
            each["default"] = fields[each["name"]][1]
    return parse(json.dumps(schema))


def reader_of(schema: AvroSchema | None = None, /, **given: Any) -> EventReader:
    return EventReader(input_of(**given), schema, Times())


@dataclass
class Outcome:
    """Everything that became of a file."""

    events: list[tuple[int, int, bytes, bytes | None]] = field(default_factory=list)
    dead: list[DeadLine] = field(default_factory=list)
    excepted: Counter[tuple[Fate, str]] = field(default_factory=Counter)
    lines: int = 0
    consumed: int = 0
    clamped: int = 0

    def add(self, cut: Cut) -> None:
        self.consumed += cut.consumed
        self.lines += cut.lines
        self.clamped += cut.clamped
        self.dead += cut.dead
        for each in cut.excepted:
            assert each.count >= 0
            assert each.bytes >= 0
            self.excepted[each.fate, each.reason] += each.count
        if cut.events is None:
            assert cut.lines == 0
            return
        bodies, times, keys = cut.events.bodies, cut.events.times, cut.events.keys
        assert bodies
        assert keys is None or len(keys) == len(bodies)
        if isinstance(times, int):
            times = [times] * len(bodies)
        rows = zip(times, cut.events.positions, bodies, keys or repeat(None), strict=False)
        self.events += [(position, time, body, key) for time, position, body, key in rows]
        assert len(cut.events.positions) == len(bodies)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body, _ in self.events]

    @property
    def times(self) -> list[int]:
        return [time for _, time, _, _ in self.events]


def read(
    reader: EventReader, data: bytes, sizes: Iterable[int] = (), most_lines: int | None = None
) -> Outcome:
    """`sizes` are those of the chunks; after them everything comes at once."""
    outcome = Outcome()
    size_of = chain(sizes, repeat(len(data) + 1))
    position, size = 0, next(size_of)
    held: Cut | None = None
    while position < len(data):
        chunk = data[position : position + size]
        at_end = position + size >= len(data)
        cut = reader.cut(
            chunk,
            position,
            now_millis=NOW,
            final=False,
            most_lines=most_lines,
            skipping=held is not None,
        )
        if not cut.consumed and at_end:
            assert cut.wait > 0, "something incomplete is left, and nobody says for how long"
            cut = reader.cut(
                chunk,
                position,
                now_millis=NOW,
                final=True,
                most_lines=most_lines,
                skipping=held is not None,
            )
            assert cut.consumed > 0
        if cut.consumed:
            size = next(size_of)
        else:
            assert len(chunk) < reader.most_bytes, "as much as ever needed, and no progress"
            size = max(size * 2, 1)
        check_sums(chunk, position, cut)
        position += cut.consumed
        cut = cut if held is None else one_after_the_other(held, cut)
        held = cut if cut.skipping else None
        if held is None:
            outcome.add(cut)
    if held is not None:
        outcome.add(held)
    return outcome


def check_sums(chunk: bytes, position: int, cut: Cut) -> None:
    """Bytes and lines that were consumed are those of events, or excepted."""
    assert 0 <= cut.consumed <= len(chunk)
    excepted = sum(each.bytes for each in cut.excepted)
    dead = sum(each.size for each in cut.dead)
    assert dead <= excepted
    assert (cut.events is not None) or excepted == cut.consumed
    assert excepted <= cut.consumed
    assert all(position <= each.position < position + cut.consumed for each in cut.dead)
    if cut.events is not None:
        positions = cut.events.positions
        assert positions == sorted(set(positions))
        assert position <= positions[0]
        assert positions[-1] < position + cut.consumed
        assert excepted + len(positions) <= cut.consumed
