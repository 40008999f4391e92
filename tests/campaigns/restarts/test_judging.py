"""The judge, fed with tallies, records and verdicts that it has to object to."""

from collections import Counter
from typing import Any

import pytest

from tests.campaigns.restarts.judging import Verdict, judge
from tests.campaigns.restarts.script import OWN, Style, TopicPlan
from tests.campaigns.restarts.writers import TopicTally

ALL = Counter({"s0/0": 1, "s0/1": 1, "s0/2": 1, "s1/0": 1})


def topic(style: Style = Style.RENAME) -> TopicPlan:
    return TopicPlan(
        name="t",
        style=style,
        moment=0.0,
        layout=OWN,
        files=12,
        folder="/logs/t",
        rotated_match=True,
        gap=True,
    )


NAMES = "names changed there: names came or went"
EMPTIED = "names changed there: may have been emptied: a.log"


def answer(state: str, *words: str) -> dict[str, Any]:
    findings = [{"kind": state, "words": each, "accepted": ""} for each in words or [NAMES]]
    waits = [{"words": "the agent is done up to then"}] if state == "pending" else []
    accepted = {"kind": "unknown", "words": NAMES, "accepted": "", "harmless": "a moment"}
    return {"state": state, "findings": [*findings, accepted], "waits": waits}


def outcome(
    state: str,
    *words: str,
    changes: dict[str, int] | None = None,
    style: Style = Style.RENAME,
    gap: tuple[str, ...] = (),
) -> Verdict:
    tally = TopicTally(streams={"s0": 3, "s1": 1}, gap=list(gap))
    seen = Counter({**ALL, **(changes or {})})
    return judge(topic(style), tally, seen, answer(state, *words)).verdict


@pytest.mark.parametrize(
    "changes", [{"s0/1": 0}, {"s1/0": 2}, {"s2/0": 1}], ids=["lost", "doubled", "nobody's"]
)
def test_a_green_verdict_over_lost_or_doubled_lines_is_false(changes: dict[str, int]) -> None:
    assert outcome("complete", changes=changes) is Verdict.FALSE_GREEN
    assert outcome("missing", changes=changes) is Verdict.BROKEN
    assert outcome("unknown", EMPTIED, changes=changes) is Verdict.BROKEN


@pytest.mark.parametrize("state", ["unknown", "missing", "duplicated", "changed", "pending"])
def test_any_other_verdict_over_all_lines_is_false(state: str) -> None:
    assert outcome(state) is Verdict.FALSE_RED
    assert outcome("complete") is Verdict.RIGHT


def test_a_copytruncate_may_lose_what_was_written_in_its_gap() -> None:
    def judged(*verdict: str, changes: dict[str, int] | None = None) -> Verdict:
        return outcome(*verdict, changes=changes, style=Style.COPYTRUNCATE, gap=("s0/2",))

    lost = {"s0/2": 0}
    assert judged("complete", changes=lost) is Verdict.RIGHT
    assert judged("unknown", EMPTIED, changes=lost) is Verdict.RIGHT
    assert judged("missing", changes=lost) is Verdict.RIGHT
    # Of a gap of which nothing happens to be lost, unknown is right; missing is not.
    assert judged("unknown", EMPTIED) is Verdict.RIGHT
    assert judged("missing") is Verdict.FALSE_RED
    # Nor may names be unknown, or anything else be lost, or a line doubled.
    assert judged("unknown", NAMES, changes=lost) is Verdict.FALSE_RED
    assert judged("complete", changes={"s0/1": 0}) is Verdict.FALSE_GREEN
    assert judged("complete", changes={"s0/2": 2}) is Verdict.FALSE_GREEN
    # Nor anything of a file without a gap.
    assert outcome("unknown", EMPTIED, style=Style.COPYTRUNCATE) is Verdict.FALSE_RED


def test_a_topic_that_the_audit_does_not_know_is_not_right() -> None:
    tally = TopicTally(streams={"s0": 3, "s1": 1})
    judgement = judge(topic(), tally, Counter(ALL), None)
    assert judgement.verdict is Verdict.FALSE_RED
    assert judgement.words == ("the audit knows no such topic",)


def test_reasons_and_lines_are_named() -> None:
    tally = TopicTally(streams={"s0": 3, "s1": 1})
    seen = Counter({**ALL, "s0/0": 0, "s1/0": 2})
    judgement = judge(topic(), tally, seen, answer("pending"))
    assert judgement.words == (
        "1 lost: s0/0",
        "1 doubled: s1/0",
        f"pending: {NAMES}",
        "waits: the agent is done up to then",
    )
