"""The judge, fed with tallies, records and verdicts that it has to object to."""

from collections import Counter
from typing import Any

import pytest

from tests.restarts.judging import LONGEST_AWAY, Outcome, judge
from tests.restarts.plans import Layout, Moment, Style, TopicPlan
from tests.restarts.writers import TopicTally

ALL = Counter({"s0/0": 1, "s0/1": 1, "s0/2": 1, "s1/0": 1})


def topic(style: Style = Style.RENAME) -> TopicPlan:
    return TopicPlan(
        name="t",
        style=style,
        moment=Moment.DEAD,
        layout=Layout.OWN,
        files=12,
        folder="/logs/t",
        rotated_match=True,
        gap=True,
    )


def answer(state: str) -> dict[str, Any]:
    finding = {"kind": state, "words": "names changed there", "accepted": ""}
    waits = [{"words": "the agent is done up to then"}] if state == "pending" else []
    return {"state": state, "findings": [finding], "waits": waits}


def outcome(
    state: str,
    changes: dict[str, int] | None = None,
    *,
    style: Style = Style.RENAME,
    gap: tuple[str, ...] = (),
    away: float = 1.0,
) -> Outcome:
    tally = TopicTally(streams={"s0": 3, "s1": 1}, gap=list(gap))
    seen = Counter({**ALL, **(changes or {})})
    return judge(topic(style), tally, seen, answer(state), away=away).outcome


@pytest.mark.parametrize(
    "changes", [{"s0/1": 0}, {"s1/0": 2}, {"s2/0": 1}], ids=["lost", "doubled", "nobody's"]
)
def test_a_green_verdict_over_lost_or_doubled_lines_is_false(changes: dict[str, int]) -> None:
    assert outcome("complete", changes) is Outcome.FALSE_GREEN
    assert outcome("missing", changes) is Outcome.BROKEN
    assert outcome("unknown", changes, away=2 * LONGEST_AWAY) is Outcome.BROKEN


@pytest.mark.parametrize("state", ["unknown", "missing", "duplicated", "changed", "pending"])
def test_any_other_verdict_over_all_lines_is_false(state: str) -> None:
    assert outcome(state) is Outcome.FALSE_RED
    assert outcome("complete") is Outcome.RIGHT


def test_only_unknown_is_excused_by_a_long_absence() -> None:
    assert outcome("unknown", away=LONGEST_AWAY + 1) is Outcome.AWAY
    assert outcome("missing", away=LONGEST_AWAY + 1) is Outcome.FALSE_RED


def test_a_copytruncate_may_lose_what_was_written_in_its_gap() -> None:
    gap, lost = ("s0/2",), {"s0/2": 0}
    for state in ("complete", "unknown", "missing"):
        assert outcome(state, lost, style=Style.COPYTRUNCATE, gap=gap) is Outcome.RIGHT
    # Unknown is right of a gap of which nothing happens to be lost; missing is not.
    assert outcome("unknown", style=Style.COPYTRUNCATE, gap=gap) is Outcome.RIGHT
    assert outcome("missing", style=Style.COPYTRUNCATE, gap=gap) is Outcome.FALSE_RED
    # Nor may anything else be lost, or doubled, or a file without a gap be unknown.
    other = {"s0/1": 0}
    assert outcome("complete", other, style=Style.COPYTRUNCATE, gap=gap) is Outcome.FALSE_GREEN
    assert outcome("complete", {"s0/2": 2}, style=Style.COPYTRUNCATE, gap=gap) is not Outcome.RIGHT
    assert outcome("unknown", style=Style.COPYTRUNCATE) is Outcome.FALSE_RED


def test_a_topic_that_the_audit_does_not_know_is_not_right() -> None:
    tally = TopicTally(streams={"s0": 3, "s1": 1})
    judgement = judge(topic(), tally, Counter(ALL), None, away=1)
    assert judgement.outcome is Outcome.FALSE_RED
    assert judgement.words == ("the audit knows no such topic",)


def test_reasons_and_lines_are_named() -> None:
    tally = TopicTally(streams={"s0": 3, "s1": 1})
    seen = Counter({**ALL, "s0/0": 0, "s1/0": 2})
    judgement = judge(topic(), tally, seen, answer("pending"), away=1)
    assert judgement.words == (
        "1 lost: s0/0",
        "1 doubled: s1/0",
        "pending: names changed there",
        "waits: the agent is done up to then",
    )
