"""Verdicts of windows taken together: cells of a heat map, totals of tiers, delays. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from audit.http.answers import Flow, TierTotals
from audit.picture import Sums, Tier, TierKind
from audit.store.rows import Delays, FlowRow
from audit.verdicts import TopicVerdict, WindowVerdict, worst

UNKNOWN: Final = -1
_NOTHING: Final = Sums()


def cells(windows: Iterable[WindowVerdict], step: int) -> list[WindowVerdict]:
    """As many windows together as begin in a stretch of `step` milliseconds since 1970."""
    grouped = groupby(windows, key=lambda each: each.start // step * step)
    return [_together(start, step, list(several)) for start, several in grouped]


def totals(verdict: TopicVerdict, delays: Delays) -> list[TierTotals]:
    """Each tier over all windows."""
    return [
        _totals(tier, added(each.sums[number] for each in verdict.windows), _delays(delays, tier))
        for number, tier in enumerate(verdict.tiers)
    ]


def _delays(delays: Delays, tier: Tier) -> Sequence[int]:
    """Brokers count what they have now and then: that would be how late they did."""
    return () if tier.kind is TierKind.BROKER else delays.get(tier, ())


def flow(row: FlowRow) -> Flow:
    """What was read is what became of it. -1 in `lost` and `read` where nobody can know."""
    lost = UNKNOWN if row.lost_unknown else row.lost
    known = row.shipped + row.filtered + row.dead
    return Flow(
        read=UNKNOWN if lost == UNKNOWN else known + lost,
        shipped=row.shipped,
        filtered=row.filtered,
        dead=row.dead,
        lost=lost,
        lost_bytes=row.lost_bytes,
        events=row.events,
    )


def added(sums: Iterable[Sums]) -> Sums:
    columns = list(zip(*sums, strict=True))
    return Sums(*map(sum, columns)) if columns else _NOTHING


def percentile(counts: Sequence[int], share: float) -> int:
    """The delay that this share of all stays below, in milliseconds; element i of the counts is of
    delays of 2^(i-1) milliseconds and more, but less than 2^i."""
    total = sum(counts)
    if not total:
        return UNKNOWN
    seen = 0
    for number, count in enumerate(counts):
        seen += count
        if count and seen >= total * share:
            return 1 << number
    return UNKNOWN


def _totals(tier: Tier, sums: Sums, delays: Sequence[int]) -> TierTotals:
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


def _together(start: int, step: int, windows: Sequence[WindowVerdict]) -> WindowVerdict:
    if len(windows) == 1 and windows[0].start == start and windows[0].length == step:
        return windows[0]
    tiers = max(len(each.sums) for each in windows)
    return WindowVerdict(
        start=start,
        length=max(step, max(each.start + each.length for each in windows) - start),
        state=worst([each.state for each in windows]),
        sums=[added(each.sums[tier] for each in windows) for tier in range(tiers)],
        missing=sum(each.missing for each in windows),
        pending=sum(each.pending for each in windows),
        excess=sum(each.excess for each in windows),
        unclaimed=sum(each.unclaimed for each in windows),
        elsewhere=sum(each.elsewhere for each in windows),
        changed=any(each.changed for each in windows),
        late=sum(each.late for each in windows),
        duplicates=sum(each.duplicates for each in windows),
        dead=sum(each.dead for each in windows),
        filtered=sum(each.filtered for each in windows),
        lost=_lost(windows),
        waits=sorted({wait for each in windows for wait in each.waits}),
        accepted=any(each.accepted for each in windows),
    )


def _lost(windows: Sequence[WindowVerdict]) -> int:
    counts = [each.lost for each in windows]
    return UNKNOWN if UNKNOWN in counts else sum(counts)
