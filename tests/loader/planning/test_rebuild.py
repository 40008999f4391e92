"""What a rebuild reads, and when it would lose what only files hold."""

import pytest

from client.delivery import TopicPartition
from loader.errors import GapError
from loader.manifests import TopicState
from loader.planning.facts import TopicFacts
from loader.planning.plan import Plan, Why
from loader.planning.rebuild import plan_rebuild
from tests.loader.planning.test_plan import TABLE, facts, ranges, state


def planned(
    found: dict[str, TopicFacts],
    known: list[TopicState],
    lowest: dict[int, int],
    *,
    accept_gap: bool = False,
) -> Plan:
    return plan_rebuild(
        TABLE,
        found,
        known,
        lowest={TopicPartition("t", each): offset for each, offset in lowest.items()},
        accept_gap=accept_gap,
        records_per_task=100,
    )


def test_everything_that_was_read_and_is_there_is_read_again() -> None:
    known = state(8, 5, 0)
    made = planned(facts((2, 20, 20), (0, 5, 5), (0, 3)), known, {0: 2})
    assert ranges(made) == [(0, 2, 8), (1, 0, 5)]
    assert made.topics == tuple(known)
    assert made.records == 11


@pytest.mark.parametrize(
    ("found", "began", "why", "read"),
    [
        (facts((4, 20)), 3, Why.RETENTION, [(0, 4, 8)]),
        (facts((9, 20)), 3, Why.RETENTION, []),
        (facts((0, 20), topic_id="two"), 3, Why.RECREATED, []),
        (facts((0, 20)), 9, Why.RECREATED, [(0, 0, 8)]),
        (facts((0, 20, 6)), 3, Why.TRUNCATED, [(0, 0, 8)]),
        (facts((0, 6)), 3, Why.TRUNCATED, [(0, 0, 6)]),
        ({}, 3, Why.VANISHED, []),
        (facts(), 3, Why.VANISHED, []),
    ],
)
def test_what_only_files_hold_is_not_thrown_away(
    found: dict[str, TopicFacts], began: int, why: Why, read: list[tuple[int, int, int]]
) -> None:
    with pytest.raises(GapError) as refused:
        planned(found, state(8), {0: began})
    assert str(refused.value) == (
        f"t-0: files of these hours hold rows from offset {began} on, "
        f"and the log does not hold them all any more ({why}). "
        "To rebuild the hours without them: --accept-gap"
    )
    made = planned(found, state(8), {0: began}, accept_gap=True)
    assert [each.why for each in made.gaps] == [why]
    assert ranges(made) == read


def test_what_is_gone_and_in_no_file_of_these_hours_does_not_matter() -> None:
    assert ranges(planned(facts((4, 20)), state(8), {0: 4})) == [(0, 4, 8)]
    assert ranges(planned(facts((4, 20)), state(8), {})) == [(0, 4, 8)]
