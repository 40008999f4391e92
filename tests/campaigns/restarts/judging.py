"""What is right and what is wrong, by the writers' tally alone. Pure.

A line is *lost* if no record of its topic has it, and *doubled* if two have. Of a copytruncate,
lines that were written between the copy and the truncation may be lost: that limit is documented,
and the writers know which lines these are.

What the audit says matters in one respect: a limit excuses a verdict of unknown about the content
of files (one was truncated, one may have been emptied), and never one about their names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from tests.campaigns.restarts.script import Style, TopicPlan
from tests.campaigns.restarts.writers import TopicTally

_OF_CONTENT: Final = ("truncated", "overwritten", "may have been emptied")  # in the audit's words
_SHOWN: Final = 4


class Verdict(StrEnum):
    """How a topic came through a restart."""

    RIGHT = "right"
    FALSE_GREEN = "falsely green"  # complete, and lines are lost or doubled
    FALSE_RED = "falsely not green"  # nothing is lost or doubled
    BROKEN = "lost, and said"  # lines are lost or doubled, and it is not complete


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One topic of one restart."""

    topic: TopicPlan
    verdict: Verdict
    state: str  # of the audit
    lost: int = 0  # but for what a copytruncate may lose
    doubled: int = 0
    lines: int = 0
    words: tuple[str, ...] = ()  # the audit's reasons, and which lines


def judge(
    topic: TopicPlan, tally: TopicTally, seen: Counter[str], answer: Mapping[str, Any] | None
) -> Judgement:
    """`seen` has the lines of the topic, as `stream/number`; `answer` is what the report says of
    it. However long nobody looked: the history of names is kept."""
    written = [
        f"{stream}/{number}" for stream, count in tally.streams.items() for number in range(count)
    ]
    gap = set(tally.gap)
    lost = [line for line in written if not seen[line] and line not in gap]
    gap_lost = sum(1 for line in gap if not seen[line])
    known = set(written)
    doubled = [line for line, times in seen.items() if times > 1 or line not in known]
    state = str(answer["state"]) if answer is not None else "no verdict"
    broken = bool(lost or doubled)
    if broken:
        verdict = Verdict.FALSE_GREEN if state == "complete" else Verdict.BROKEN
    elif state == "complete" or _is_limit(topic, tally, answer, gap_lost):
        verdict = Verdict.RIGHT
    else:
        verdict = Verdict.FALSE_RED
    return Judgement(
        topic=topic,
        verdict=verdict,
        state=state,
        lost=len(lost),
        doubled=len(doubled),
        lines=len(written),
        words=(*_named("lost", lost), *_named("doubled", doubled), *reasons(answer)),
    )


def _is_limit(
    topic: TopicPlan, tally: TopicTally, answer: Mapping[str, Any] | None, gap_lost: int
) -> bool:
    """Whether a copytruncate may have this verdict: it may be unknown if there were lines in its
    gap, and missing if some of them are gone."""
    if topic.style is not Style.COPYTRUNCATE or not tally.gap or answer is None:
        return False
    return _is_of_content(answer) or (answer["state"] == "missing" and gap_lost > 0)


def _is_of_content(answer: Mapping[str, Any] | None) -> bool:
    """Whether it is unknown, and that of what was in files alone."""
    return (
        answer is not None
        and answer["state"] == "unknown"
        and all(
            any(words in each["words"] for words in _OF_CONTENT)
            for each in answer["findings"]
            if not each["accepted"] and not each.get("harmless")
        )
    )


def reasons(answer: Mapping[str, Any] | None) -> list[str]:
    """Why the audit does not call a topic complete, in its words."""
    if answer is None:
        return ["the audit knows no such topic"]
    findings = [
        f"{each['kind']}: {each['words']}"
        for each in answer["findings"]
        if not each["accepted"] and not each.get("harmless")
    ]
    waits = [f"waits: {each['words']}" for each in answer["waits"]]
    return [*_few(findings), *_few(waits)]


def _named(what: str, lines: Sequence[str]) -> list[str]:
    return [f"{len(lines)} {what}: {', '.join(_few(lines))}"] if lines else []


def _few(words: Sequence[str]) -> list[str]:
    more = len(words) - _SHOWN
    return [*words[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
