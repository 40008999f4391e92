"""The judge of groups' histories: right ones pass, and each rule objects to one that breaks it."""

from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from tests.campaigns.groups import judging
from tests.campaigns.groups.events import (
    Changed,
    Committed,
    Committing,
    Ended,
    Event,
    Fetched,
    Read,
    Saved,
    Synced,
)
from tests.campaigns.groups.judging import Case, judge
from tests.campaigns.groups.requests import ILLEGAL_GENERATION, NOT_AVAILABLE
from tests.campaigns.groups.script import PAPER
from tests.campaigns.history import History, Trouble


class Story(msgspec.Struct, frozen=True):
    """Ten records of partition 0 of which member `a` reads five in generation 1, and commits that;
    `b` reads the others in generation 2; and so it is in the group of the paper's kind, too."""

    events: tuple[Event, ...]

    def rules(self) -> set[str]:
        return {each.rule for each in judge(Case(History(self.events), ("raw", PAPER)))}

    def with_events(self, *more: Event) -> "Story":
        return replace(self, events=(*self.events, *more))

    def without(self, unwanted: Event) -> "Story":
        assert unwanted in self.events
        return replace(self, events=tuple(each for each in self.events if each != unwanted))


def committing(
    number: int, generation: int, offset: int, at: float, member: str = "a"
) -> Committing:
    return Committing("raw", member, number, member, generation, {0: offset}, at)


def committed(number: int, at: float, member: str = "a", code: int = 0) -> Committed:
    return Committed("raw", member, number, code, at)


def read(who: str, first: int, last: int, since: float, until: float) -> Read:
    """`who`: group, member and claim."""
    group, member, claim = who.split()
    return Read(group, member, int(claim), 0, first, last, since, until, until + 0.1)


FETCHED = Fetched("raw", "b", {0: 5}, 3.2, 3.3)
LAST_READ = read("raw b 1", 5, 9, 3.4, 4.0)
RIGHT = Story(
    (
        Ended(0, 10, 0.0),
        Synced("raw", "a", "a", 1, (0,), 1.0, 1.1),
        Saved("raw", 1, {"a": (0,)}, 1.1),
        Fetched("raw", "a", {0: -1}, 1.2, 1.3),
        read("raw a 1", 0, 4, 1.4, 2.0),
        committing(1, 1, 5, 2.2),
        committed(1, 2.3),
        Saved("raw", 2, {"b": (0,)}, 3.0),
        Synced("raw", "b", "b", 2, (0,), 2.5, 3.1),
        FETCHED,
        LAST_READ,
        committing(1, 2, 10, 4.2, "b"),
        committed(1, 4.3, "b"),
        Fetched("raw", "end", {0: 10}, 5.0, 5.1),
        read("paper p 1", 0, 4, 1.0, 2.0),
        read("paper q 1", 5, 9, 3.0, 4.0),
    )
)


def test_a_right_history() -> None:
    assert RIGHT.rules() == set()


WRONG: Sequence[tuple[str, Story]] = [
    ("unread", RIGHT.without(LAST_READ).with_events(read("raw b 1", 6, 9, 3.4, 4.0))),
    ("unread", RIGHT.with_events(Ended(1, 3, 0.0))),
    ("changed", RIGHT.with_events(Changed("raw", "a", 0, 3, "b'0 7'", 2.0))),
    ("shared", RIGHT.with_events(Synced("raw", "c", "c", 2, (0,), 3.0, 3.2))),
    ("shared", RIGHT.with_events(Saved("raw", 3, {"a": (0,), "c": (0,)}, 4.5))),
    ("generations", RIGHT.with_events(Saved("raw", 1, {"a": (0,)}, 3.5))),
    ("generations", RIGHT.with_events(Saved("raw", 2, {}, 3.5))),
    ("old", RIGHT.with_events(committing(2, 1, 5, 3.2), committed(2, 3.25))),
    ("stranger", RIGHT.with_events(committing(1, 1, 5, 1.5, "c"), committed(1, 1.6, "c"))),
    ("lost", RIGHT.with_events(Fetched("raw", "end", {0: 5}, 5.2, 5.3))),
    ("lost", RIGHT.with_events(Fetched("raw", "end", {0: -1}, 5.2, 5.3))),
    ("lost", RIGHT.with_events(Fetched("raw", "end", {0: 11}, 5.2, 5.3))),
    (
        "lost",  # it was not answered, but of a generation before one that is committed in
        RIGHT.with_events(committing(2, 1, 3, 2.4), Fetched("raw", "end", {0: 3}, 5.2, 5.3)),
    ),
    (
        "lost",  # it was refused
        RIGHT.with_events(
            committing(2, 2, 3, 4.5, "b"),
            committed(2, 4.6, "b", ILLEGAL_GENERATION),
            Fetched("raw", "end", {0: 3}, 5.2, 5.3),
        ),
    ),
    (
        "lost",  # nobody knew what came of it, and another one followed
        RIGHT.with_events(
            committing(2, 2, 3, 3.4, "b"),
            committed(2, 3.5, "b", NOT_AVAILABLE),
            Fetched("raw", "end", {0: 3}, 5.2, 5.3),
        ),
    ),
    ("claims", RIGHT.with_events(read("paper p 1", 5, 6, 1.9, 3.2))),
    ("claims", RIGHT.with_events(read("paper p 2", 5, 6, 3.1, 3.2))),
    ("stuck", RIGHT.with_events(Trouble("stuck: raw has not read all", 9.0))),
    ("trouble", RIGHT.with_events(Trouble("trouble: broker 1 ended by itself", 9.0))),
]


@pytest.mark.parametrize(("rule", "story"), WRONG)
def test_a_wrong_history(rule: str, story: Story) -> None:
    assert story.rules() == {rule}


def test_each_rule_is_tried() -> None:
    listed = judging.__doc__ or ""
    assert {rule for rule, _ in WRONG} == {
        line.split()[0] for line in listed.splitlines() if line.startswith("    ")
    }
