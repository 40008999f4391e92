"""What changed in groups between two looks."""

import pytest

from audit.clusters.groups.changes import changes, settled
from audit.clusters.groups.lags import GroupsSeen, seen
from client.groups.lag import Lag
from client.groups.offsets import GroupOfMembers, ListedGroup, MemberOfGroup
from client.producing.delivery import TopicPartition

LOOKED = 1_790_000_000_000


def looked(state: str, **members: int) -> GroupsSeen:
    """A group with these members, each with one partition; without any it was not described."""
    described = GroupOfMembers(
        "g",
        "consumer",
        "range",
        state,
        1,
        tuple(
            MemberOfGroup(name, None, "", "", ("t",), (TopicPartition("t", partition),))
            for name, partition in members.items()
        ),
    )
    lags = {("g", TopicPartition(topic, 0)): Lag(3, None, 3, 0, None, 0.0) for topic in ("t", "u")}
    listed = {"g": ListedGroup("g", "consumer", state, 1)} if state else {}
    return seen(LOOKED, listed, lags, (), {"g": described} if members else {})


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([looked("Stable", a=0)], []),
        ([looked("Stable", a=0), looked("Stable", a=0)], []),
        ([looked("Stable", a=0), looked("Empty")], ["stopped: it has no members"]),
        ([looked("Empty"), looked("Stable", a=0)], ["started with 1 member"]),
        ([looked("Stable", a=0), looked("Stable", a=0, b=1)], ["rebalanced: 2 members, before 1"]),
        ([looked("Stable", a=0), looked("Stable", b=0)], ["rebalanced: 1 member, as before"]),
        (
            [
                looked("Stable", a=0, b=1),
                looked("PreparingRebalance", a=0, b=1),
                looked("Stable", a=1, b=0),
            ],
            ["rebalanced: 2 members, as before"],
        ),
        ([looked("Stable", a=0), looked("Stable"), looked("Stable", a=0)], []),
        ([looked("Stable", a=0), looked(""), looked("Stable", b=0)], []),
    ],
    ids=lambda value: "; ".join(value) if value and isinstance(value[0], str) else None,
)
def test_what_changed(looks: list[GroupsSeen], expected: list[str]) -> None:
    """In both topics that it reads."""
    before, marks = settled({}, looks[0]), []
    for look in looks[1:]:
        now = settled(before, look)
        marks += changes("c", before, now, look)
        before = now
    assert [(mark.topic, mark.words) for mark in marks] == [
        (topic, f"Group g {words}") for words in expected for topic in ("t", "u")
    ]
