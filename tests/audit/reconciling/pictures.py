"""A small topic in which everything is as it should be, to be spoilt by tests."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from audit.reconciling.picture import (
    BatchPart,
    ExpectedAgent,
    Inexact,
    PartitionPicture,
    Source,
    Tier,
    TierKind,
    TopicKey,
    TopicPicture,
    Window,
    WindowSums,
)
from ground.intervals import Intervals

AGENT = Tier(TierKind.AGENT)
BROKER = Tier(TierKind.BROKER)
HDFS = Tier(TierKind.HDFS, "hdfs:/data")
MINUTE = 60_000
HOUR = 60 * MINUTE
START = 1_762_938_000_000  # 2025-11-12 09:00:00 UTC, an hour's beginning
EVENTS = 10  # of each window


def window(number: int, *, length: int = MINUTE, **sums: WindowSums) -> Window:
    """All tiers alike, but for those that are given."""
    alike = WindowSums(EVENTS, 100, 7)
    tiers = {AGENT: "agent", BROKER: "broker", HDFS: "hdfs"}
    return Window(
        START + number * MINUTE,
        length,
        {tier: sums.get(name, alike) for tier, name in tiers.items()},
    )


def agent(host: str = "web-3", *, until: int = START + HOUR, **known: Any) -> ExpectedAgent:
    return ExpectedAgent(f"agent-of-{host}", host, until, START + HOUR, **known)


def source(
    *, landed: Intervals, stretches: Sequence[BatchPart] = (), shipped: Intervals = ((0, 600),)
) -> Source:
    return Source(
        "s1", "agent-of-web-3", "web-3", "/var/log/shop/a.log", shipped, {HDFS: landed}, stretches
    )


def stretch(first: int, count: int) -> BatchPart:
    """In the partition 0, seqs are offsets, and lines are 100 bytes."""
    begin = START + first // EVENTS * MINUTE
    end = START + (first + count + EVENTS - 1) // EVENTS * MINUTE
    return BatchPart("s1", 0, first, first, count, first * 100, (first + count) * 100, begin, end)


def claimed(**tiers: Intervals) -> PartitionPicture:
    whole = ((0, 60 * EVENTS),)
    names = {AGENT: "agent", BROKER: "broker", HDFS: "hdfs"}
    return PartitionPicture(0, {tier: tiers.get(name, whole) for tier, name in names.items()})


def picture(**spoilt: Any) -> TopicPicture:
    """An hour, an hour ago. Offsets prove nothing of it: windows are compared by their sums."""
    whole = TopicPicture(
        key=TopicKey("local", "clicks", "id"),
        from_time=START,
        to_time=START + HOUR,
        now=START + 2 * HOUR,
        tiers=(AGENT, BROKER, HDFS),
        windows=[window(each) for each in range(60)],
        partitions=[claimed()],
        open=[],
        sources=[],
        agents=[agent()],
        inexact=[Inexact(each, START, START + HOUR) for each in (AGENT, BROKER, HDFS)],
    )
    return replace(whole, **spoilt)


def windows(*spoilt: Window) -> list[Window]:
    given = {each.start: each for each in spoilt}
    return [given.get(each.start, each) for each in map(window, range(60))]
