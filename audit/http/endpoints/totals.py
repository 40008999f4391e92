"""Computes totals over windows: cells of a heat map, and the counts and delays of tiers."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from audit.api.answers import TierTotals
from audit.reconciling.findings import FaultKind, worst
from audit.reconciling.picture import Tier, TierKind, WindowSums
from audit.reconciling.topic_verdict import TopicVerdict, WindowVerdict
from audit.service.service import Service
from audit.store.topics.topics import Delays

UNKNOWN: Final = -1
_NOTHING: Final = WindowSums()


def delays_of(service: Service, judged: TopicVerdict, from_time: int, to_time: int) -> Delays:
    delays = service.reading.delays(judged.key, from_time, to_time)
    if judged.origin is None:
        return delays
    return of_copy(delays, service.reading.delays(judged.origin, from_time, to_time))


def of_copy(delays: Delays, of_origin: Delays) -> Delays:
    """Returns the delays of a copy; the delays of its agents are taken from its origin."""
    agent = Tier(TierKind.AGENT)
    return delays | ({agent: of_origin[agent]} if agent in of_origin else {})


def cells(windows: Iterable[WindowVerdict], step: int) -> list[WindowVerdict]:
    """Combines windows into cells of `step` milliseconds each."""
    groups = groupby(windows, key=lambda window: window.start // step * step)
    return [_combined(start, step, list(members)) for start, members in groups]


def tier_totals(verdict: TopicVerdict, delays: Delays) -> list[TierTotals]:
    """Computes the totals of each tier.

    Of files, the rows that exist: committed rows, less those of missing files, plus those of
    duplicated files, accepted or not.

    The mirror's totals are `at_least` while the brokers of the copy have more: the mirror reports
    later than it copies, and after a kill not everything."""
    sums = [_existing(tier, number, verdict) for number, tier in enumerate(verdict.tiers)]
    copied_events = max(
        (
            tier_sums.events
            for tier, tier_sums in zip(verdict.tiers, sums, strict=True)
            if tier.kind is TierKind.BROKER
        ),
        default=0,
    )
    return [
        replace(
            _totals(tier, tier_sums, _delays(delays, tier)),
            at_least=tier in verdict.uncounted
            or (tier.kind is TierKind.MIRROR and tier_sums.events < copied_events),
        )
        for tier, tier_sums in zip(verdict.tiers, sums, strict=True)
    ]


def _existing(tier: Tier, number: int, verdict: TopicVerdict) -> WindowSums:
    sums = added(window.sums[number] for window in verdict.windows)
    if tier.kind is not TierKind.HDFS:
        return sums
    rows = sum(
        finding.events if finding.kind is FaultKind.DUPLICATED else -finding.events
        for finding in verdict.findings
        if finding.is_landed_file
        and (finding.tier, finding.destination) == tier
        and finding.events > 0
    )
    return sums._replace(events=max(0, sums.events + rows)) if rows else sums


def _delays(delays: Delays, tier: Tier) -> Sequence[int]:
    """The delays at a tier; none at brokers, which count at intervals of their own."""
    return () if tier.kind is TierKind.BROKER else delays.get(tier, ())


def added(sums: Iterable[WindowSums]) -> WindowSums:
    columns = list(zip(*sums, strict=True))
    return WindowSums(*map(sum, columns)) if columns else _NOTHING


def percentile(counts: Sequence[int], share: float) -> int:
    """Interpolates a percentile of delays, in milliseconds. Element i counts delays from 2^(i-1) to
    below 2^i milliseconds, which are assumed to be spread evenly, as in Prometheus' buckets."""
    total = sum(counts)
    if not total:
        return UNKNOWN
    target, count_before = total * share, 0
    for number, count in enumerate(counts):
        if count and count_before + count >= target:
            lower_bound = (1 << number) >> 1
            fraction = (target - count_before) / count
            return max(1, round(lower_bound + ((1 << number) - lower_bound) * fraction))
        count_before += count
    return UNKNOWN


def _totals(tier: Tier, sums: WindowSums, delays: Sequence[int]) -> TierTotals:
    return TierTotals(
        tier=tier.kind.value,
        destination=tier.destination,
        events=sums.events,
        bytes=sums.bytes,
        crc_sum=sums.crc_sum,
        late=sums.late,
        duplicates=sums.duplicates,
        dead=sums.dead,
        p50=percentile(delays, 0.50),
        p95=percentile(delays, 0.95),
        p99=percentile(delays, 0.99),
        max=percentile(delays, 1.0),
    )


def _combined(start: int, step: int, windows: Sequence[WindowVerdict]) -> WindowVerdict:
    if len(windows) == 1 and windows[0].start == start and windows[0].length == step:
        return windows[0]
    tiers = max(len(window.sums) for window in windows)
    return WindowVerdict(
        start=start,
        length=max(step, max(window.start + window.length for window in windows) - start),
        state=worst([window.state for window in windows]),
        sums=[added(window.sums[tier] for window in windows) for tier in range(tiers)],
        missing=sum(window.missing for window in windows),
        pending=sum(window.pending for window in windows),
        excess=sum(window.excess for window in windows),
        unclaimed=sum(window.unclaimed for window in windows),
        unclaimed_yet=sum(window.unclaimed_yet for window in windows),
        elsewhere=sum(window.elsewhere for window in windows),
        changed=any(window.changed for window in windows),
        late=sum(window.late for window in windows),
        duplicates=sum(window.duplicates for window in windows),
        dead=sum(window.dead for window in windows),
        filtered=sum(window.filtered for window in windows),
        lost=_lost(windows),
        waits=sorted({wait for window in windows for wait in window.waits}),
        accepted=any(window.accepted for window in windows),
    )


def _lost(windows: Sequence[WindowVerdict]) -> int:
    counts = [window.lost for window in windows]
    return UNKNOWN if UNKNOWN in counts else sum(counts)


def most_events(tiers: Iterable[TierTotals]) -> int:
    """Returns the number of events at the tier with the most events."""
    return max((tier.events for tier in tiers), default=0)
