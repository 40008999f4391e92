"""Topics: all of them by hour, one by window, their findings, and whether an hour is complete.

Verdicts of windows are combined into cells of a heat map, totals of tiers, and delays.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.api import answers, queries
from audit.api.answers import Rate, TierTotals
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints.groups import with_groups
from audit.http.endpoints.headlines import headline_of
from audit.http.endpoints.rates import rate_of, rate_of_all, with_rate
from audit.http.endpoints.remarks import altered_in, remarks_of
from audit.http.endpoints.topic_lookup import (
    failing_in,
    failing_loads,
    findings,
    fresh_verdict,
    is_current,
    key_of,
    not_landed,
    now_of,
    open_findings,
    picture,
    verdict,
)
from audit.reconciling import words
from audit.reconciling.findings import FaultKind, Finding, State, or_empty, worst
from audit.reconciling.gate import hour_gate
from audit.reconciling.picture import Tier, TierKind, TopicKey, WindowSums
from audit.reconciling.topic_verdict import TopicVerdict, Wait, WindowVerdict, distinct
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY, HOUR, hour_of
from audit.store.topics.topics import Delays

_FEW: Final = 100  # findings and waits of a topic
_MANY: Final = 1_000  # of a report
_MOST_FAILING: Final = 500


def topics(service: Service, query: queries.TopicsQuery) -> answers.TopicsAnswer:
    now = now_millis()
    standing = service.standing
    to_hour = hour_of(now) + HOUR
    hours = range(to_hour - query.hours * HOUR, to_hour, HOUR)
    overview = service.reading.overview(query, to_hour, standing.is_deleted)
    failing = failing_loads(service, query.cluster)[:_MOST_FAILING]
    return answers.TopicsAnswer(
        now=now,
        as_of=standing.as_of,
        by_state={state.value: overview.by_state[state] for state in State},
        clusters=sorted(standing.clusters),
        alerts=service.alerts_raised,
        page=overview.page,
        items=[with_rate(service, with_groups(service, row)) for row in overview.items],
        notices=[*standing.notices(), *standing.too_old(now)],
        failing_loads=failing,
        accepted=overview.accepted,
        altered=altered_in(service, query.cluster, hours.start),
        having={state.value: overview.having[state] for state in State},
        matching={state.value: overview.matching[state] for state in State},
        headline=headline_of(
            service,
            query.cluster,
            hours,
            overview.by_state,
            failing,
            now=now,
            waits=overview.having[State.PENDING] > 0,
            accepted=overview.accepted,
        ),
        rate=rate_of_all(service, query.cluster),
    )


def _so_far(state: State, from_time: int, now: int) -> State:
    """A time that has not begun is at best pending."""
    return worst([state, State.PENDING]) if from_time > now else state


def topic(service: Service, query: queries.TopicQuery) -> answers.TopicAnswer:
    now = now_millis()
    window = service.window_millis
    from_time, to_time = queries.between(query, now=now, window=window, otherwise=DAY)
    step = _step(query.step, to_time - from_time, window)
    key = key_of(service, query.cluster, query.topic)
    judged = verdict(service, key, from_time, to_time)
    reading = service.reading
    failing = failing_in(service, judged)
    altered, remarks = remarks_of(service, key, from_time, to_time)
    tiers = tier_totals(judged, _delays_of(service, judged, from_time, to_time))
    state = not_landed(_so_far(judged.state, from_time, now), failing)
    return answers.TopicAnswer(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        former_ids=_former(service, key),
        state=or_empty(state, _most_events(tiers)),
        now=now,
        as_of=now_of(service, key.cluster),
        from_time=from_time,
        to_time=to_time,
        step=step,
        tiers=tiers,
        flow=reading.flow(judged.origin or key, from_time, to_time),
        cells=cells(judged.windows, step),
        findings=judged.findings[:_FEW],
        findings_total=len(judged.findings),
        waits=judged.waits[:_FEW],
        waits_total=len(judged.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing,
        altered=altered,
        remarks=remarks,
        kinds=judged.totals.kinds,
        checks=reading.checks(key),
        rate=rate_of(service, key.cluster, key.topic) if is_current(service, key) else Rate(),
    )


def _delays_of(service: Service, judged: TopicVerdict, from_time: int, to_time: int) -> Delays:
    delays = service.reading.delays(judged.key, from_time, to_time)
    if judged.origin is None:
        return delays
    return of_copy(delays, service.reading.delays(judged.origin, from_time, to_time))


def of_copy(delays: Delays, of_origin: Delays) -> Delays:
    """Agents' delays are those of the origin."""
    agent = Tier(TierKind.AGENT)
    return delays | ({agent: of_origin[agent]} if agent in of_origin else {})


def _step(step: int | None, length: int, window: int) -> int:
    """The step in whole windows; by default the smallest that is not too fine."""
    if step is None:
        least = -(-length // 1_500)
        return -(-least // window) * window
    step = -(-step // window) * window
    if length // step > queries.MOST_CELLS:
        raise BadQuery(f"`step` is too fine: more than {queries.MOST_CELLS} cells")
    return step


def _former(service: Service, key: TopicKey) -> list[str]:
    return [
        former.topic_id
        for former in service.reading.topics()
        if former[:2] == key[:2] and former.topic_id != key.topic_id
    ]


def _faulty_former(service: Service, key: TopicKey, between: tuple[int, int]) -> Iterator[TopicKey]:
    """Yields deleted topics of the same name with faults, such as lines deleted before they landed:
    without these, a report on the name would call them accounted for."""
    for topic_id in _former(service, key):
        former = key._replace(topic_id=topic_id)
        if _reported(service, former, between).report.state.is_fault:
            yield former


def all_findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    named = [
        (key, finding)
        for key, finding in _findings(service, query)
        if query.host in {"", finding.host} and query.accepted in {None, not finding.is_open}
    ]
    by_kind = Counter(finding.kind.value for _, finding in named)
    if query.kind is not None:
        named = [pair for pair in named if pair[1].kind is query.kind]
    shown = query.cut(named)
    return answers.Findings(
        page=query.of(len(named)),
        items=[finding for _, finding in shown],
        topics=[f"{key.cluster}/{key.topic}" for key, _ in shown],
        topic_ids=[key.topic_id for key, _ in shown],
        by_kind=dict(by_kind),
    )


def _findings(service: Service, query: queries.FindingsQuery) -> Iterator[tuple[TopicKey, Finding]]:
    """Findings of the whole retention, unless times are given. Without a topic, only incomplete
    topics are judged, and for accepted findings also topics with acceptances."""
    kept = int(service.config.retention * 1000)
    between = queries.between(query, now=now_millis(), window=service.window_millis, otherwise=kept)
    timed = query.from_time is not None or query.to_time is not None
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        yield from ((key, finding) for finding in findings(service, key, *between))
        return
    accepted = service.reading.accepted_topics() if query.accepted else frozenset()
    for key in service.reading.topics():
        if query.cluster in {"", key.cluster}:
            is_accepted = key[:2] in accepted
            known = findings(service, key, *between) if is_accepted else open_findings(service, key)
            for finding in known:
                if not timed or _overlaps(finding, between):
                    yield key, finding


def _overlaps(finding: Finding, between: tuple[int, int]) -> bool:
    if finding.from_time < 0:
        return True
    last = max(finding.to_time, finding.from_time + 1)
    return finding.from_time < between[1] and last > between[0]


def report(service: Service, query: queries.ReportQuery) -> answers.ReportAnswer:
    now = now_millis()
    between = queries.between(query, now=now, window=service.window_millis, otherwise=DAY)
    if query.topic:
        keys = [key_of(service, query.cluster, query.topic)]
        keys += _faulty_former(service, keys[0], between)
    else:
        keys = [key for key in service.reading.topics() if query.cluster in {"", key.cluster}]
    reports = []
    for key in keys:
        reported = _reported(service, key, between)
        # A deleted topic without events in this time is left out.
        if not reported.is_empty or query.topic or is_current(service, key):
            so_far = _so_far(reported.report.state, between[0], now)
            state = not_landed(so_far, reported.report.failing_loads)
            state = or_empty(state, _most_events(reported.report.tiers))
            altered, remarks = remarks_of(service, key, *between)
            reports.append(replace(reported.report, state=state, altered=altered, remarks=remarks))
    clusters = {key.cluster for key in keys} or set(service.standing.clusters)
    as_of = min(service.standing.clusters[name].as_of for name in _read(service, clusters))
    known_until = as_of - service.window_millis - int(service.config.grace * 1000)
    if between[1] > known_until and not any(_has_events(topic) for topic in reports):
        reports = [_unreported(topic) for topic in reports]
    state = worst([topic.state for topic in reports]) if reports else State.PENDING
    return answers.ReportAnswer(
        state=_so_far(state, between[0], now),
        from_time=between[0],
        to_time=between[1],
        now=now,
        as_of=as_of,
        topics=reports,
    )


def _has_events(report: answers.TopicReport) -> bool:
    return report.flow.read != 0 or _most_events(report.tiers) > 0


def _most_events(tiers: Iterable[TierTotals]) -> int:
    """The events of the tier that has most."""
    return max((tier.events for tier in tiers), default=0)


def _unreported(report: answers.TopicReport) -> answers.TopicReport:
    """The report on a topic without any events, of a time that ends so late that lines of it may
    not be reported yet: at best pending."""
    if report.deleted:
        return report
    waits = distinct([*report.waits, Wait(on="ledger", words=words.fresh())])
    return replace(
        report,
        state=worst([report.state, State.PENDING]),
        waits=waits,
        waits_total=report.waits_total + len(waits) - len(report.waits),
        complete_until=max(0, report.complete_until),
    )


def _read(service: Service, clusters: set[str]) -> set[str]:
    """The clusters that are still being read: the database may contain former ones, too."""
    known = set(service.standing.clusters)
    return clusters & known or known


class _Reported(NamedTuple):
    """The report on a topic, with its state as judged, whatever the time."""

    report: answers.TopicReport
    is_empty: bool  # nothing happened


def _reported(service: Service, key: TopicKey, between: tuple[int, int]) -> _Reported:
    """The report on a topic, cached until something changes; its verdict is too large for that."""

    def make() -> _Reported:
        verdict = fresh_verdict(service, key, *between)
        return _Reported(_report(service, verdict), not (verdict.windows or verdict.findings))

    return service.kept(("report", key, *between), make)


def _report(service: Service, verdict: TopicVerdict) -> answers.TopicReport:
    key, between = verdict.key, (verdict.from_time, verdict.to_time)
    windows = verdict.windows
    return answers.TopicReport(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=verdict.state,
        tiers=tier_totals(verdict, _delays_of(service, verdict, *between)),
        flow=service.reading.flow(verdict.origin or key, *between),
        missing=verdict.totals.missing + verdict.totals.lost,
        excess=verdict.totals.duplicated,
        unclaimed=sum(window.unclaimed for window in windows),
        unclaimed_yet=sum(window.unclaimed_yet for window in windows),
        pending=sum(window.pending for window in windows),
        elsewhere=sum(window.elsewhere for window in windows),
        findings=verdict.findings[:_MANY],
        findings_total=len(verdict.findings),
        waits=verdict.waits[:_FEW],
        waits_total=len(verdict.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing_in(service, verdict),
        kinds=verdict.totals.kinds,
        accepted=verdict.totals.accepted,
        checks=service.reading.checks(key),
        complete_until=verdict.complete_until,
    )


def hour(service: Service, query: queries.HourQuery) -> answers.HourGate:
    if query.hour % HOUR:
        raise BadQuery("`hour` must be the beginning of an hour, in milliseconds since 1970 UTC")
    try:
        key = key_of(service, query.cluster, query.topic)
    except (Unknown, NotNow) as error:
        return _not_yet(str(error))
    standing = service.standing.clusters.get(key.cluster)
    if standing is None or not standing.read:
        return _not_yet(f"the audit, which is still reading the ledger of {key.cluster}")
    gate = hour_gate(picture(service, key, query.hour, query.hour + HOUR))
    return answers.HourGate(
        complete=gate.complete, by=gate.by, missing=gate.missing, names=list(gate.names)
    )


def _not_yet(missing: str) -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing=missing, names=[])


UNKNOWN: Final = -1
_NOTHING: Final = WindowSums()


def cells(windows: Iterable[WindowVerdict], step: int) -> list[WindowVerdict]:
    """Combines the windows that begin in the same `step` milliseconds since 1970."""
    grouped = groupby(windows, key=lambda window: window.start // step * step)
    return [_together(start, step, list(several)) for start, several in grouped]


def tier_totals(verdict: TopicVerdict, delays: Delays) -> list[TierTotals]:
    """The totals of each tier. Sums of files' windows are what was committed: rows of missing files
    are subtracted and those of duplicated files added, accepted or not, which gives what is there.

    What a copy's brokers have was copied, even if the mirror has not reported it: it reports later,
    and after a kill not everything."""
    sums = [_as_found(tier, number, verdict) for number, tier in enumerate(verdict.tiers)]
    copied = max(
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
            or (tier.kind is TierKind.MIRROR and tier_sums.events < copied),
        )
        for tier, tier_sums in zip(verdict.tiers, sums, strict=True)
    ]


def _as_found(tier: Tier, number: int, verdict: TopicVerdict) -> WindowSums:
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
    """A percentile of delays, in milliseconds. Element i counts delays from 2^(i-1) to below 2^i
    milliseconds, which are taken to be spread evenly, like Prometheus' buckets."""
    total = sum(counts)
    if not total:
        return UNKNOWN
    wanted, seen = total * share, 0
    for number, count in enumerate(counts):
        if count and seen + count >= wanted:
            least = (1 << number) >> 1
            inside = (wanted - seen) / count
            return max(1, round(least + ((1 << number) - least) * inside))
        seen += count
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


def _together(start: int, step: int, windows: Sequence[WindowVerdict]) -> WindowVerdict:
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
