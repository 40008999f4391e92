"""How far other counters have counted a partition, according to the ledger."""

from typing import Any

import pytest

from ledger.counting.counted_offsets import (
    CountedUpTo,
    EpochStart,
    History,
    furthest,
    furthest_copied,
)
from ledger.counting.journal import PartitionKey

KEY = PartitionKey("t", "id", 0)
HISTORY = History([EpochStart(0, 0), EpochStart(3, 100), EpochStart(5, 250)], 300)


def told(
    source: str, epoch: int, *stretches: tuple[int, int], tier: str = "broker", partition: int = 0
) -> dict[str, Any]:
    offsets = [{"first": first, "count": count} for first, count in stretches]
    passage = {"topic": "t", "topic_id": "id", "partition": partition, "leader_epoch": epoch}
    passages = [passage | {"offsets": offsets}]
    return {"header": {"source": source}, "tier": tier, "passages": passages}


def test_a_history_knows_where_an_epoch_ends() -> None:
    assert [HISTORY.end_of(epoch) for epoch in (-1, 0, 2, 3, 4, 5, 6)] == [
        0, 100, 100, 250, 250, 300, 300,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], None),
        ([told("a", 0, (0, 40), (40, 20))], CountedUpTo(60, 0, "a")),
        (
            [told("a", 0, (0, 90)), told("b", 3, (100, 80)), told("a", 0, (90, 5))],
            CountedUpTo(180, 3, "b"),
        ),
        # What it told beyond the end of its epoch is in the log no more.
        ([told("a", 3, (100, 400))], CountedUpTo(250, 3, "a")),
        ([told("a", 3, (260, 40))], CountedUpTo(250, 3, "a")),
        # Where an epoch begins is no count; agents, and other partitions, say nothing of it.
        ([told("a", 5, (250, 0))], None),
        ([told("a", 0, (0, 60), tier="agent"), told("b", 0, (0, 60), partition=1)], None),
        ([told("a", -1, (0, 60))], None),
    ],
)
def test_who_came_furthest(entries: list[dict[str, Any]], expected: CountedUpTo | None) -> None:
    assert furthest(entries, {KEY: HISTORY}) == ({} if expected is None else {KEY: expected})


def test_how_far_mirrors_have_come() -> None:
    entries = [
        told("m", -1, (0, 40), (50, 10), tier="mirror"),
        told("n", -1, (40, 5), tier="mirror"),
        told("a", -1, (0, 900)),
        told("m", -1, (0, 900), tier="mirror", partition=1),
    ]
    assert furthest_copied(entries, {KEY}) == {KEY: 60}
    assert furthest_copied(entries[2:], {KEY}) == {}
