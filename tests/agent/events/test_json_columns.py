"""JSON taken column by column is JSON taken line by line."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.batches.json_tails import JsonTails
from agent.batches.tail_encoder import TailEncoder
from agent.config_lines import Filter, Time
from agent.events.fields import fields_of_json
from agent.events.filtering import Filters
from agent.events.making import Made, Make, OneByOne, Rules, When
from agent.events.messages import Messages
from agent.events.plan import JsonColumns
from agent.events.times import time_reader
from tests.agent.events.reading import NOW, schema_of

SCHEMA = schema_of(
    level=("string", "none"),
    n=["null", "long"],
    ok=["null", "boolean"],
    ratio=("double", 0.0),
    ts="string",
    tags=({"type": "array", "items": "string"}, []),
    dc="string",
)
ADDED = {"dc": "zurich"}
RULES = Rules(
    Filters([Filter(drop="drop"), Filter(drop="^7$", field="n"), Filter(drop="x", field="who.id")]),
    When("ts", time_reader(Time(field="ts"))),
    "level",
)
ASKED = ["ts", "n", "who.id", "who", "level"]

CARRIED = {*TailEncoder(SCHEMA).names, *ASKED}
LINE_BY_LINE = OneByOne(
    lambda line, _: fields_of_json(line), ADDED, RULES, TailEncoder(SCHEMA).encode, CARRIED
)
COLUMNS = JsonColumns(
    JsonTails(TailEncoder(SCHEMA), take=ASKED, constants=ADDED), ASKED, ADDED, RULES
)

TIMES = st.sampled_from(["2026-11-20T14:00:00.123Z", "2026-11-20T14:00:00Z", "1999-01-01", "no", 7])
VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 7, 2**31, 2**63, 2**64, -1, 1.5, 7.0, "7", "true", "", "-", "drop"])
    | st.lists(st.sampled_from(["a", 1, None]), max_size=2)
    | st.fixed_dictionaries({"id": st.sampled_from(["x", "y", 1])})
    | st.text(max_size=3)
)
NAMES = st.sampled_from(["level", "n", "ok", "ratio", "tags", "dc", "who", "who.id", "unknown"])
OBJECTS = st.builds(
    lambda fields, time: json.dumps({**fields, "ts": time}),
    st.dictionaries(NAMES, VALUES, max_size=5),
    TIMES,
)
LINES = st.lists(
    OBJECTS | st.sampled_from(["", " ", "{", "[]", "null", "7", "{}", "drop", '{"n": NaN}']),
    max_size=8,
)


def made(make: Make, lines: list[bytes]) -> tuple[Any, ...]:
    positions = [0]
    for line in lines:
        positions.append(positions[-1] + len(line) + 1)
    result = Made(Messages(lines, positions), NOW, (0, 2 * NOW), lines.__getitem__)
    make(lines, result)
    columns = (result.times, result.positions, result.bodies, result.keys)
    dead = [(each.position, each.raw, each.time) for each in result.dead]
    dropped = result.dropped.counts
    return (*columns, dead, dropped, result.tally.excepted(), result.lines, result.clamped)


@given(lines=LINES)
@settings(max_examples=150)
def test_the_same_events_and_the_same_dead_letters(lines: list[str]) -> None:
    bodies = [line.encode() for line in lines]
    assert made(COLUMNS, bodies) == made(LINE_BY_LINE, bodies)
