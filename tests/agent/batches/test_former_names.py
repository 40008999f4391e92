"""Fields that were renamed by alias, and lines of applications that have not heard of it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.batches.json_tails import BLOCK, JsonTails
from agent.batches.tail_encoder import TailEncoder
from tests.agent.batches.event_tails import event_schema
from tests.agent.batches.test_json_tails import check

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "id", "type": "long", "aliases": ["number"]}],
}
RENAMED = event_schema(
    {"name": "user", "type": "string", "aliases": ["login", "name"]},
    {"name": "plan", "type": ["null", "string"], "default": None, "aliases": ["tier"]},
    {"name": "count", "type": "int", "default": 7, "aliases": ["n"]},
    {"name": "tier2", "type": ["null", "long"], "default": None, "aliases": ["user"]},
    {"name": "inner", "type": ["null", INNER], "default": None, "aliases": ["outer"]},
    name="shop.Renamed",
)
TODAY = {"user": "ada", "plan": "free", "count": 3}
FORMER = {"login": "ada", "tier": "free", "n": 3}


def text(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def test_lines_with_former_names_are_the_events_that_lines_with_todays_are() -> None:
    encoder = TailEncoder(RENAMED)
    today = encoder.encode(TODAY)
    assert encoder.encode(FORMER) == today
    assert JsonTails(encoder).encode([text(TODAY), text(FORMER)]).bodies == [today, today]


def test_todays_name_counts_then_the_first_of_former_ones() -> None:
    encoder = TailEncoder(RENAMED)
    both = {"name": "old", "login": "newer", "user": "newest"}
    assert encoder.encode(both) == encoder.encode({"user": "newest"})
    del both["user"]
    assert encoder.encode(both) == encoder.encode({"user": "newer"})


def test_a_name_that_another_field_has_now_is_that_ones() -> None:
    encoder = TailEncoder(RENAMED)
    assert "tier2" not in encoder.aliases
    assert encoder.encode({"user": "1"}) == encoder.encode({"user": "1", "tier2": None})


def test_inner_records_have_former_names_too() -> None:
    encoder = TailEncoder(RENAMED)
    wanted = encoder.encode({"user": "a", "inner": {"id": 5}})
    assert encoder.encode({"user": "a", "outer": {"number": 5}}) == wanted
    line = text({"user": "a", "outer": {"number": 5}})
    assert JsonTails(encoder).encode([line]).bodies == [wanted]


class ColumnByColumn(JsonTails):
    """Never one by one, as what needs a conversion is."""

    def _one(self, line: bytes, *_: object) -> Any:
        raise AssertionError(line)


def test_lines_of_both_kinds_are_done_at_once() -> None:
    tails = ColumnByColumn(TailEncoder(RENAMED)).encode([text(TODAY), text(FORMER)] * BLOCK)
    assert len(set(tails.bodies)) == 1
    assert tails.refused == {}


def test_what_is_under_no_name_is_missing() -> None:
    tails = JsonTails(TailEncoder(RENAMED)).encode([text(FORMER), b"{}", text(TODAY)])
    assert tails.refused == {1: "user: it is missing"}
    assert tails.bodies[0] == tails.bodies[2] is not None


def test_unknown_fields_are_told_from_former_names() -> None:
    tails = JsonTails(TailEncoder(RENAMED), only_known=True)
    assert tails.encode([text(FORMER)]).refused == {}
    assert tails.encode([text(FORMER | {"tier2": 1, "no": 1})]).refused == {
        0: "there is no field 'no'"
    }


def test_what_is_asked_for_is_found_under_former_names() -> None:
    tails = JsonTails(TailEncoder(RENAMED), take=["user", "login"])
    assert tails.encode([text(TODAY), text(FORMER), b"{}"]).taken == (
        ["ada", "ada", None],
        [None, "ada", None],
    )


NAMES = ["user", "login", "name", "plan", "tier", "count", "n", "tier2", "inner", "outer", "x"]
VALUES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**31, 1.5, 7.0, "7", "", "-", "a", [], {"id": 1}, {"number": 2}])
)


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6), max_size=9),
    st.sampled_from([[], ["user"], ["login"], ["n", "count"], ["outer"]]),
)
def test_column_by_column_is_one_by_one(lines: list[dict[str, Any]], take: list[str]) -> None:
    check(TailEncoder(RENAMED), list(map(text, lines)), take=take)
