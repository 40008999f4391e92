"""What agents, brokers, loaders and operators say of one log, in entries whose events are numbered
as their offsets are unless something was lost; and the orders in which entries may come."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.audit.audited_ledger import FIRST, NOW
from tests.audit.store.said import (
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    passage,
    run,
    window,
)

TIME: Final = FIRST + MINUTE
LATER: Final = FIRST + HOUR + MINUTE
LINE: Final = 10  # bytes
OF_THE_LOG: Final = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": 0}


def lines(seq: int, events: int, file: str = "file", path: str = "", **more: Any) -> Json:
    """A run of a file's lines."""
    where = {"position": seq * LINE, "end_position": (seq + events) * LINE}
    return run(file, seq, events, path=path or f"/log/{file}", **where | more)


def shipped(
    seq: int, first: int, events: int, *, time: int = TIME, epoch: int = 0, file: str = "file"
) -> Json:
    """A passage: lines of a file, at offsets from `first` on."""
    runs = [lines(seq, events, file)]
    return passage(0, first, events, [window(time, events)], runs=runs, leader_epoch=epoch)


def agent(
    number: int, *passages: Json, time: int = TIME, until: int = NOW, journal: str = "agent"
) -> Json:
    beat = {"until": until, "topics": [TOPIC]}
    return entry("agent", journal, number, time, passages=list(passages), heartbeats=[beat])


def broker(
    number: int,
    *stretches: tuple[int, int, int, int],
    journal: str = "broker",
    at: int | None = None,
    **more: Any,
) -> Json:
    """Counted: first, count, window, epoch."""
    passages = [
        passage(0, first, count, [window(time, count)], leader_epoch=epoch)
        for first, count, time, epoch in stretches
    ]
    return entry("broker", journal, number, at or TIME + number, passages=passages, **more)


def loader(number: int, first: int, count: int, time: int, *runs: Json, epoch: int = 0) -> Json:
    landed = passage(0, first, count, [window(time, count)], runs=list(runs), leader_epoch=epoch)
    return load(number, landed, time=time)


def load(number: int, *passages: Json, time: int = TIME, **more: Any) -> Json:
    """A run of the loader, by its passages."""
    known: Json = {"destination": ROOT, "run": number, "passages": list(passages)}
    return entry("hdfs", "loader", number, time, **known | more)


def withdrawn(first: int, count: int, epoch: int, **more: Any) -> Json:
    gone = {"leader_epoch": epoch, "first": first, "count": count}
    return OF_THE_LOG | gone | {"reason": "its tail could not be recovered"} | more


def damaged(first: int, count: int) -> Json:
    offsets = {"first": first, "count": count}
    return OF_THE_LOG | {"offsets": offsets, "reason": "its CRC does not match"}


def operator(time: int = NOW, reason: str = "known", **given: Any) -> Json:
    """Accepts what is given; at a time that no other statement of the test has."""
    known = {"topic": TOPIC, "partition": -1, "from_time": None, "to_time": None, "reason": reason}
    return entry("operator", "operator", time, time, accepted=[known | given])


def accepting(first: int, count: int, time: int) -> Json:
    offsets = [{"first": first, "count": count}]
    return operator(time, "the disk broke", partition=0, offsets=offsets)


each_order = pytest.mark.parametrize(
    "order",
    [
        each if each in {0, 2} else pytest.param(each, marks=pytest.mark.not_quick("other orders"))
        for each in range(6)
    ],
)
each_way = pytest.mark.parametrize("way", ["together", "one by one", "backwards"])


def in_orders(said: Sequence[Json]) -> list[list[list[Json]]]:
    """Together, one by one, backwards, by tiers, and twice."""
    by_tier = sorted(said, key=lambda each: each["tier"])
    return [
        [list(said)],
        [[each] for each in said],
        [[each] for each in reversed(said)],
        [[each] for each in by_tier],
        [[each] for each in reversed(by_tier)],
        [list(said), list(said)],
    ]


def in_chunks(said: Sequence[Json], way: str) -> list[list[Json]]:
    return in_orders(said)[("together", "one by one", "backwards").index(way)]
