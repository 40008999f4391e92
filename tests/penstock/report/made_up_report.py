"""A report as an audit answers it, made up: one topic of each kind."""

import msgspec

from audit.api.answers import FailingLoad, Flow, ReportAnswer, TierTotals, TopicReport
from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import Wait

MORNING = 1_795_158_000_000  # 2026-11-20, 07:00 UTC
HOUR = 3_600_000


def tier(name: str, events: int, destination: str = "", **more: int | bool) -> TierTotals:
    known = TierTotals(
        tier=name,
        destination=destination,
        events=events,
        bytes=events * 117,
        crc_sum=events * 77_777,
        late=0,
        duplicates=0,
        dead=0,
        p50=512,
        p95=2_048,
        p99=65_536,
        max=5_400_000,
    )
    return msgspec.structs.replace(known, **more)


def all_shipped(count: int) -> Flow:
    return Flow(read=count, shipped=count, filtered=0, dead=0, lost=0, lost_bytes=0, events=count)


def topic(name: str, **more: object) -> TopicReport:
    known = TopicReport(
        cluster="dc1",
        topic=name,
        topic_id="eNqrVkosLslMVrJSUA",
        state=State.COMPLETE,
        tiers=[tier("agent", 1_200), tier("broker", 1_200), tier("hdfs", 1_200, "hdfs://nn/logs")],
        flow=all_shipped(1_200),
        missing=0,
        excess=0,
        unclaimed=0,
        findings=[],
        findings_total=0,
        waits=[],
        waits_total=0,
    )
    return msgspec.structs.replace(known, **more)


NOT_AT_THE_BROKERS = Finding(
    kind=FaultKind.MISSING,
    words="web-3: /var/log/shop/a.log, bytes 8,192 to 9,216 (events 120 to 131) are not at the "
    "brokers (clicks-0, offsets 4,711 to 4,722)",
    tier="broker",
    host="web-3",
    agent="a1",
    path="/var/log/shop/a.log",
    source="a1-7",
    seq=120,
    events=12,
    position=8_192,
    end_position=9_216,
    partition=0,
    offset=4_711,
    offsets=12,
)
LOST = Finding(
    kind=FaultKind.LOST,
    words="web-4: /var/log/shop/b.log, bytes 0 to 512 (3 lines) were gone before they were read: "
    "truncated",
    source="a2-1",
    accepted="known since Monday",
)
NOT_LOADED = FailingLoad(
    cluster="dc1",
    topic="orders",
    destination="file:///srv/logs",
    since=MORNING,
    said=MORNING + 60_000,
    reason="1 of 1 records are dead, which is more than dead_share allows (0.01)",
    cure="look at orders.dead, or raise dead_share",
)
BEHIND = Wait(
    on="agent",
    words="web-9 (agent a9) is acknowledged up to 2026-11-20 07:12:00",
    host="web-9",
    agent="a9",
    since=MORNING + 720_000,
)

MISSING = topic(
    "clicks",
    state=State.MISSING,
    tiers=[
        tier("agent", 48_000),
        tier("broker", 47_988),
        tier("hdfs", 47_980, "hdfs://nn/logs", late=3, duplicates=6, dead=2),
    ],
    flow=Flow(
        read=48_123, shipped=48_000, filtered=100, dead=20, lost=3, lost_bytes=512, events=48_000
    ),
    missing=12,
    findings=[NOT_AT_THE_BROKERS, LOST],
    findings_total=2,
)
PENDING = topic(
    "orders",
    state=State.PENDING,
    tiers=[tier("agent", 900), tier("broker", 900), tier("hdfs", 0, "hdfs://nn/logs", p50=-1)],
    pending=900,
    waits=[BEHIND],
    waits_total=7,
)
COMPLETE = topic("page_views")


def report(*topics: TopicReport, **more: object) -> ReportAnswer:
    known = ReportAnswer(
        state=max((each.state for each in topics), key=lambda each: each.severity),
        from_time=MORNING,
        to_time=MORNING + HOUR,
        now=MORNING + HOUR + 5_000,
        as_of=MORNING + HOUR + 4_321,
        topics=list(topics),
    )
    return msgspec.structs.replace(known, **more)
