"""Answers about topics: all of them by hour, one of them by window, what is wrong with them, and
whether an hour is done."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from audit.errors import BadQuery, NotNow, Unknown
from audit.http import answers, queries, sums
from audit.http.asking import (
    cut,
    findings,
    is_current,
    key_of,
    now_of,
    open_findings,
    page_of,
    picture,
    verdict,
)
from audit.http.failing import failing_loads, not_landed, of_verdict
from audit.judged_hours import DAY, HOUR, hour_of
from audit.picture import TopicKey
from audit.reconciling.gate import hour_gate
from audit.service import Service, now_millis
from audit.store.rows import TopicRow
from audit.verdicts import Finding, State, TopicVerdict, worst

_FEW: Final = 100  # findings and waits of a topic
_MANY: Final = 1_000  # of a report
_MOST_FAILING: Final = 500


def topics(service: Service, query: queries.TopicsQuery) -> answers.Topics:
    now = now_millis()
    standing = service.standing
    to_hour = hour_of(now) + HOUR
    from_hour = to_hour - query.hours * HOUR
    keys = service.reading.topics()
    deleted = frozenset(each for each in keys if standing.is_deleted(each))
    found = service.reading.topic_rows(
        from_hour=from_hour,
        to_hour=to_hour,
        cluster=query.cluster,
        search=query.search,
        state=query.state or "",
        deleted=deleted,
        sort=query.sort,
        page=query.page,
        size=query.size,
    )
    states = service.reading.states(from_hour, to_hour, deleted)
    by_state = Counter(states.get(key) or State.COMPLETE for key in keys)
    return answers.Topics(
        now=now,
        as_of=standing.as_of,
        by_state={each.value: by_state[each] for each in State},
        clusters=sorted(standing.clusters),
        alerts=service.alerts_raised,
        page=page_of(query, found.total),
        items=[_row(each, from_hour) for each in found.items],
        notices=[*standing.notices(), *standing.too_old(now)],
        failing_loads=failing_loads(service, query.cluster)[:_MOST_FAILING],
    )


def _row(row: TopicRow, from_hour: int) -> answers.TopicRow:
    return answers.TopicRow(
        cluster=row.key.cluster,
        topic=row.key.topic,
        topic_id=row.key.topic_id,
        state=_state(row.state),
        events=row.events,
        missing=row.missing,
        excess=row.excess,
        pending_windows=row.pending_windows,
        findings=row.findings,
        agents=row.agents,
        agents_behind=row.agents_behind,
        last_event=row.last_event,
        from_hour=from_hour,
        counts=list(row.counts),
        states=[_state(each) for each in row.states],
        waits=row.waits,
        deleted=row.deleted,
        load_fails=row.load_fails,
    )


def _state(word: str) -> State:
    """What was never judged has nothing against it."""
    return State(word) if word else State.COMPLETE


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
    failing = of_verdict(service, judged)
    return answers.TopicAnswer(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        former_ids=_former(service, key),
        state=not_landed(_so_far(judged.state, from_time, now), failing),
        now=now,
        as_of=now_of(service, key.cluster),
        from_time=from_time,
        to_time=to_time,
        step=step,
        tiers=sums.totals(judged, reading.delays(key, from_time, to_time)),
        flow=sums.flow(reading.flow(key, from_time, to_time)),
        cells=sums.cells(judged.windows, step),
        findings=judged.findings[:_FEW],
        findings_total=len(judged.findings),
        waits=judged.waits[:_FEW],
        waits_total=len(judged.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing,
    )


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


def all_findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    found = [
        (finding, f"{key.cluster}/{key.topic}")
        for key, finding in _findings(service, query)
        if query.host in {"", finding.host}
        and query.kind in {None, finding.kind}
        and query.accepted in {None, bool(finding.accepted)}
    ]
    chosen = cut(found, query)
    return answers.Findings(
        page=page_of(query, len(found)),
        items=[finding for finding, _ in chosen],
        topics=[name for _, name in chosen],
    )


def _findings(service: Service, query: queries.FindingsQuery) -> Iterator[tuple[TopicKey, Finding]]:
    """Of all that is kept, unless times are given. Of many topics only those that are not complete
    are looked at."""
    kept = int(service.config.retention * 1000)
    between = queries.between(query, now=now_millis(), window=service.window_millis, otherwise=kept)
    timed = query.from_time is not None or query.to_time is not None
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        yield from ((key, each) for each in findings(service, key, *between))
        return
    for key in service.reading.topics():
        if query.cluster in {"", key.cluster}:
            for each in open_findings(service, key):
                if not timed or _overlaps(each, between):
                    yield key, each


def _overlaps(finding: Finding, between: tuple[int, int]) -> bool:
    if finding.from_time < 0:
        return True
    last = max(finding.to_time, finding.from_time + 1)
    return finding.from_time < between[1] and last > between[0]


def report(service: Service, query: queries.ReportQuery) -> answers.Report:
    now = now_millis()
    between = queries.between(query, now=now, window=service.window_millis, otherwise=DAY)
    if query.topic:
        keys = [key_of(service, query.cluster, query.topic)]
    else:
        keys = [e for e in service.reading.topics() if query.cluster in {"", e.cluster}]
    said = []
    for key in keys:
        judged = verdict(service, key, *between)
        # Of a topic that was deleted there is nothing to say where nothing was in it.
        if judged.windows or judged.findings or query.topic or is_current(service, key):
            said.append(_report(service, judged))
    clusters = {each.cluster for each in keys} or set(service.standing.clusters)
    return answers.Report(
        state=_so_far(worst([each.state for each in said]), between[0], now),
        from_time=between[0],
        to_time=between[1],
        now=now,
        as_of=min(service.standing.clusters[each].as_of for each in _read(service, clusters)),
        topics=said,
    )


def _read(service: Service, clusters: set[str]) -> set[str]:
    """Those that are read still: others may have been, and are in the database."""
    known = set(service.standing.clusters)
    return clusters & known or known


def _report(service: Service, judged: TopicVerdict) -> answers.TopicReport:
    key, between = judged.key, (judged.from_time, judged.to_time)
    windows = judged.windows
    failing = of_verdict(service, judged)
    return answers.TopicReport(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=not_landed(_so_far(judged.state, judged.from_time, now_millis()), failing),
        tiers=sums.totals(judged, service.reading.delays(key, *between)),
        flow=sums.flow(service.reading.flow(key, *between)),
        missing=judged.totals.missing + judged.totals.lost,
        excess=judged.totals.duplicated,
        unclaimed=sum(each.unclaimed for each in windows),
        pending=sum(each.pending for each in windows),
        elsewhere=sum(each.elsewhere for each in windows),
        findings=judged.findings[:_MANY],
        findings_total=len(judged.findings),
        waits=judged.waits[:_FEW],
        waits_total=len(judged.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing,
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
