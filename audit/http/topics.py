"""Answers about topics: all of them by hour, one of them by window, what is wrong with them, and
whether an hour is done.

For these, verdicts of windows are taken together: cells of a heat map, totals of tiers, delays.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.api import answers, queries
from audit.api.answers import Rate, TierTotals
from audit.api.verdicts import TopicVerdict, Wait, WindowVerdict
from audit.errors import BadQuery, NotNow, Unknown
from audit.findings import FaultKind, Finding, State, or_empty, worst
from audit.http.asking import (
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
from audit.http.groups import with_groups
from audit.http.headlines import headline_of
from audit.http.rates import rate_of, rate_of_all, with_rate
from audit.http.remarks import altered_in, remarks_of
from audit.picture import Tier, TierKind, TopicKey, WindowSums
from audit.reconciling import words
from audit.reconciling.gate import hour_gate
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
    found = service.reading.overview(query, to_hour, standing.is_deleted)
    failing = failing_loads(service, query.cluster)[:_MOST_FAILING]
    return answers.TopicsAnswer(
        now=now,
        as_of=standing.as_of,
        by_state={each.value: found.by_state[each] for each in State},
        clusters=sorted(standing.clusters),
        alerts=service.alerts_raised,
        page=found.page,
        items=[with_rate(service, with_groups(service, each)) for each in found.items],
        notices=[*standing.notices(), *standing.too_old(now)],
        failing_loads=failing,
        partly_unseen=found.partly_unseen,
        altered=altered_in(service, query.cluster, hours.start),
        having={each.value: found.having[each] for each in State},
        headline=headline_of(
            service,
            query.cluster,
            hours,
            found.by_state,
            failing,
            now=now,
            waits=found.having[State.PENDING] > 0,
            partly_unseen=found.partly_unseen > 0,
        ),
        rate=rate_of_all(service, query.cluster),
    )


def _so_far(state: State, from_time: int, now: int) -> State:
    """Of a time that has not begun nothing is complete."""
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
    found = service.reading.delays(judged.key, from_time, to_time)
    if judged.origin is None:
        return found
    return of_copy(found, service.reading.delays(judged.origin, from_time, to_time))


def of_copy(found: Delays, of_origin: Delays) -> Delays:
    """Agents' delays are those of the origin."""
    agent = Tier(TierKind.AGENT)
    return found | ({agent: of_origin[agent]} if agent in of_origin else {})


def _step(step: int | None, length: int, window: int) -> int:
    """In whole windows; the smallest that is not too fine, if nobody says."""
    if step is None:
        least = -(-length // 1_500)
        return -(-least // window) * window
    step = -(-step // window) * window
    if length // step > queries.MOST_CELLS:
        raise BadQuery(f"`step` is too fine: there would be more than {queries.MOST_CELLS} cells")
    return step


def _former(service: Service, key: TopicKey) -> list[str]:
    return [
        each.topic_id
        for each in service.reading.topics()
        if each[:2] == key[:2] and each.topic_id != key.topic_id
    ]


def _faulty_former(service: Service, key: TopicKey, between: tuple[int, int]) -> Iterator[TopicKey]:
    """Yields deleted topics of the same name with faults, such as lines deleted before they landed:
    without these, a report on the name would call them accounted for."""
    for topic_id in _former(service, key):
        former = key._replace(topic_id=topic_id)
        if _reported(service, former, between).report.state.is_fault:
            yield former


def all_findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    found = [
        (key, finding)
        for key, finding in _findings(service, query)
        if query.host in {"", finding.host} and query.accepted in {None, bool(finding.accepted)}
    ]
    by_kind = Counter(finding.kind.value for _, finding in found)
    if query.kind is not None:
        found = [each for each in found if each[1].kind is query.kind]
    chosen = query.cut(found)
    return answers.Findings(
        page=query.of(len(found)),
        items=[finding for _, finding in chosen],
        topics=[f"{key.cluster}/{key.topic}" for key, _ in chosen],
        topic_ids=[key.topic_id for key, _ in chosen],
        by_kind=dict(by_kind),
    )


def _findings(service: Service, query: queries.FindingsQuery) -> Iterator[tuple[TopicKey, Finding]]:
    """Of all that is kept, unless times are given. Of many topics only those that are not complete
    are looked at; for accepted findings, those of which an operator has accepted any."""
    kept = int(service.config.retention * 1000)
    between = queries.between(query, now=now_millis(), window=service.window_millis, otherwise=kept)
    timed = query.from_time is not None or query.to_time is not None
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        yield from ((key, each) for each in findings(service, key, *between))
        return
    accepted = service.reading.accepted_topics() if query.accepted else frozenset()
    for key in service.reading.topics():
        if query.cluster in {"", key.cluster}:
            is_accepted = key[:2] in accepted
            known = findings(service, key, *between) if is_accepted else open_findings(service, key)
            for each in known:
                if not timed or _overlaps(each, between):
                    yield key, each


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
        keys = [e for e in service.reading.topics() if query.cluster in {"", e.cluster}]
    said = []
    for key in keys:
        found = _reported(service, key, between)
        # Of a topic that was deleted there is nothing to say where nothing was in it.
        if not found.is_empty or query.topic or is_current(service, key):
            so_far = _so_far(found.report.state, between[0], now)
            state = not_landed(so_far, found.report.failing_loads)
            state = or_empty(state, _most_events(found.report.tiers))
            altered, remarks = remarks_of(service, key, *between)
            said.append(replace(found.report, state=state, altered=altered, remarks=remarks))
    clusters = {each.cluster for each in keys} or set(service.standing.clusters)
    as_of = min(service.standing.clusters[each].as_of for each in _read(service, clusters))
    told = as_of - service.window_millis - int(service.config.grace * 1000)
    if between[1] > told and not any(_has_events(each) for each in said):
        said = [_untold(each) for each in said]
    state = worst([each.state for each in said]) if said else State.PENDING
    return answers.ReportAnswer(
        state=_so_far(state, between[0], now),
        from_time=between[0],
        to_time=between[1],
        now=now,
        as_of=as_of,
        topics=said,
    )


def _has_events(report: answers.TopicReport) -> bool:
    return report.flow.read != 0 or _most_events(report.tiers) > 0


def _most_events(tiers: Iterable[TierTotals]) -> int:
    """Of any tier."""
    return max((each.events for each in tiers), default=0)


def _untold(report: answers.TopicReport) -> answers.TopicReport:
    """Where nothing at all is known, and the time ends so late that lines of it may have been
    written of which nobody has spoken yet: nothing of it is complete."""
    if report.deleted:
        return report
    wait = Wait(on="ledger", words=words.fresh())
    return replace(
        report,
        state=worst([report.state, State.PENDING]),
        waits=[*report.waits, wait],
        waits_total=report.waits_total + 1,
    )


def _read(service: Service, clusters: set[str]) -> set[str]:
    """Those that are read still: others may have been, and are in the database."""
    known = set(service.standing.clusters)
    return clusters & known or known


class _Reported(NamedTuple):
    """What there is to say of a topic, but that its state is what it was judged, whatever the
    time."""

    report: answers.TopicReport
    is_empty: bool  # nothing happened


def _reported(service: Service, key: TopicKey, between: tuple[int, int]) -> _Reported:
    """Kept while nothing changes, unlike the verdict that it is made of, which is large."""

    def make() -> _Reported:
        said = fresh_verdict(service, key, *between)
        return _Reported(_report(service, said), not (said.windows or said.findings))

    return service.kept(("report", key, *between), make)


def _report(service: Service, said: TopicVerdict) -> answers.TopicReport:
    key, between = said.key, (said.from_time, said.to_time)
    windows = said.windows
    return answers.TopicReport(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=said.state,
        tiers=tier_totals(said, _delays_of(service, said, *between)),
        flow=service.reading.flow(said.origin or key, *between),
        missing=said.totals.missing + said.totals.lost,
        excess=said.totals.duplicated,
        unclaimed=sum(each.unclaimed for each in windows),
        unclaimed_yet=sum(each.unclaimed_yet for each in windows),
        pending=sum(each.pending for each in windows),
        elsewhere=sum(each.elsewhere for each in windows),
        findings=said.findings[:_MANY],
        findings_total=len(said.findings),
        waits=said.waits[:_FEW],
        waits_total=len(said.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing_in(service, said),
        kinds=said.totals.kinds,
        checks=service.reading.checks(key),
        complete_until=min(
            (each.start for each in windows if each.state is State.PENDING), default=-1
        ),
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
    said = hour_gate(picture(service, key, query.hour, query.hour + HOUR))
    return answers.HourGate(
        complete=said.complete, by=said.by, missing=said.missing, names=list(said.names)
    )


def _not_yet(missing: str) -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing=missing, names=[])


UNKNOWN: Final = -1
_NOTHING: Final = WindowSums()


def cells(windows: Iterable[WindowVerdict], step: int) -> list[WindowVerdict]:
    """As many windows together as begin in a stretch of `step` milliseconds since 1970."""
    grouped = groupby(windows, key=lambda each: each.start // step * step)
    return [_together(start, step, list(several)) for start, several in grouped]


def tier_totals(verdict: TopicVerdict, delays: Delays) -> list[TierTotals]:
    """Each tier over all windows. Of files, what is there: their windows' sums are what was
    committed, so rows of files that are gone are taken off, and those of files that are there twice
    are added. Whether somebody has accepted that makes no difference.

    What a copy's brokers have was copied, though the mirror may not have said so: it tells the
    ledger later, and after a kill not of all."""
    sums = [_as_found(tier, number, verdict) for number, tier in enumerate(verdict.tiers)]
    copied = max(
        (
            each.events
            for tier, each in zip(verdict.tiers, sums, strict=True)
            if tier.kind is TierKind.BROKER
        ),
        default=0,
    )
    return [
        replace(
            _totals(tier, each, _delays(delays, tier)),
            at_least=tier in verdict.uncounted
            or (tier.kind is TierKind.MIRROR and each.events < copied),
        )
        for tier, each in zip(verdict.tiers, sums, strict=True)
    ]


def _as_found(tier: Tier, number: int, verdict: TopicVerdict) -> WindowSums:
    sums = added(each.sums[number] for each in verdict.windows)
    if tier.kind is not TierKind.HDFS:
        return sums
    rows = sum(
        each.events if each.kind is FaultKind.DUPLICATED else -each.events
        for each in verdict.findings
        if each.is_landed_file and (each.tier, each.destination) == tier and each.events > 0
    )
    return sums._replace(events=max(0, sums.events + rows)) if rows else sums


def _delays(delays: Delays, tier: Tier) -> Sequence[int]:
    """Brokers count what they have now and then: that would be how late they did."""
    return () if tier.kind is TierKind.BROKER else delays.get(tier, ())


def added(sums: Iterable[WindowSums]) -> WindowSums:
    columns = list(zip(*sums, strict=True))
    return WindowSums(*map(sum, columns)) if columns else _NOTHING


def percentile(counts: Sequence[int], share: float) -> int:
    """The delay that this share of all stays below, in milliseconds; element i of the counts is of
    delays of 2^(i-1) milliseconds and more, but less than 2^i. Within them delays are taken to be
    spread evenly, as Prometheus does with a histogram's buckets."""
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
        unclaimed_yet=sum(each.unclaimed_yet for each in windows),
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
