"""Handles `/api/v1/report`: whether all lines of a period arrived, topic by topic."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.api import answers, queries
from audit.http.endpoints.remarks import remarks_of
from audit.http.endpoints.signatures import reservations
from audit.http.endpoints.topic_lookup import (
    at_best_pending,
    failing_in,
    former_ids,
    fresh_verdict,
    is_current,
    key_of,
)
from audit.http.endpoints.totals import delays_of, most_events, tier_totals
from audit.programs import INPUTS
from audit.reconciling import words
from audit.reconciling.findings import State, or_empty, worst
from audit.reconciling.picture import TopicKey
from audit.reconciling.topic_verdict import TopicVerdict, Wait, distinct
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY

_MOST_FINDINGS: Final = 1_000  # of a topic
_MOST_WAITS: Final = 100
_MOST_UNREAD: Final = 100


def report(service: Service, query: queries.ReportQuery) -> answers.ReportAnswer:
    now = now_millis()
    period = queries.between(query, now=now, window=service.window_millis, otherwise=DAY)
    if query.topic:
        keys = [key_of(service, query.cluster, query.topic)]
        keys += _faulty_former(service, keys[0], period)
    else:
        keys = [key for key in service.reading.topics() if query.cluster in {"", key.cluster}]
    has_begun = period[0] <= now
    reports = []
    for key in keys:
        topic_report = _reported(service, key, period)
        # A deleted topic without events in this time is left out.
        if not topic_report.is_empty or query.topic or is_current(service, key):
            is_early = bool(topic_report.report.failing_loads) or not has_begun
            state = at_best_pending(topic_report.report.state, when=is_early)
            state = or_empty(state, most_events(topic_report.report.tiers))
            altered_totals, remarks = remarks_of(service, key, *period)
            reports.append(
                replace(topic_report.report, state=state, altered=altered_totals, remarks=remarks)
            )
    clusters = {key.cluster for key in keys} or set(service.standing.clusters)
    as_of = min(service.standing.clusters[name].as_of for name in _known(service, clusters))
    known_until = as_of - service.window_millis - int(service.config.grace * 1000)
    if period[1] > known_until and not any(_has_events(topic) for topic in reports):
        reports = [_unreported(topic) for topic in reports]
    state = worst([topic.state for topic in reports]) if reports else State.PENDING
    unread_inputs = list(islice(_unread(service, query.cluster, period[1]), _MOST_UNREAD))
    return answers.ReportAnswer(
        state=at_best_pending(state, when=not has_begun or bool(unread_inputs)),
        from_time=period[0],
        to_time=period[1],
        now=now,
        as_of=as_of,
        topics=reports,
        unread=unread_inputs,
    )


def _unread(service: Service, cluster: str, to_time: int) -> Iterator[answers.UnreadInput]:
    """Yields the inputs that are not read now. A time that ended a day before that began is not
    affected: files that were never read seldom have older lines."""
    for key, condition in service.alert_conditions.items():
        is_affected = to_time > condition.since - DAY
        if key.kind == INPUTS and cluster in {"", key.cluster} and is_affected:
            yield answers.UnreadInput(
                cluster=key.cluster,
                host=key.host,
                words=condition.words,
                since=condition.since,
                **condition.cure.fields,
            )


def _faulty_former(service: Service, key: TopicKey, between: tuple[int, int]) -> Iterator[TopicKey]:
    """Yields deleted topics of the same name with faults, such as lines deleted before they landed:
    without these, a report on the name would call them accounted for."""
    for topic_id in former_ids(service, key):
        former_key = key._replace(topic_id=topic_id)
        if _reported(service, former_key, between).report.state.is_fault:
            yield former_key


def _has_events(report: answers.TopicReport) -> bool:
    return report.flow.read != 0 or most_events(report.tiers) > 0


def _unreported(report: answers.TopicReport) -> answers.TopicReport:
    """Makes the report on a topic without events pending: its time ends so late that its lines may
    not have been reported yet."""
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


def _known(service: Service, clusters: set[str]) -> set[str]:
    """The clusters that are still being read: the database may contain former ones, too."""
    configured_clusters = set(service.standing.clusters)
    return clusters & configured_clusters or configured_clusters


class _Reported(NamedTuple):
    """The report on a topic. Its state does not depend on the current time."""

    report: answers.TopicReport
    is_empty: bool  # without windows and findings


def _reported(service: Service, key: TopicKey, between: tuple[int, int]) -> _Reported:
    """The report on a topic, cached until data change. Verdicts are too large to cache."""

    def make() -> _Reported:
        verdict = fresh_verdict(service, key, *between)
        return _Reported(_report(service, verdict), not (verdict.windows or verdict.findings))

    return service.kept(("report", key, *between), make)


def _report(service: Service, verdict: TopicVerdict) -> answers.TopicReport:
    key, period = verdict.key, (verdict.from_time, verdict.to_time)
    windows = verdict.windows
    return answers.TopicReport(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        state=verdict.state,
        tiers=tier_totals(verdict, delays_of(service, verdict, *period)),
        flow=service.reading.flow(verdict.origin or key, *period),
        missing=verdict.totals.missing + verdict.totals.lost,
        excess=verdict.totals.duplicated,
        unclaimed=sum(window.unclaimed for window in windows),
        unclaimed_yet=sum(window.unclaimed_yet for window in windows),
        pending=sum(window.pending for window in windows),
        elsewhere=sum(window.elsewhere for window in windows),
        findings=verdict.findings[:_MOST_FINDINGS],
        findings_total=len(verdict.findings),
        waits=verdict.waits[:_MOST_WAITS],
        waits_total=len(verdict.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing_in(service, verdict),
        kinds=verdict.totals.kinds,
        accepted=verdict.totals.accepted,
        checks=service.reading.checks(key),
        complete_until=verdict.complete_until,
        retired_roots=service.reading.retired_roots(key),
        reservations=reservations(service, key, *period),
    )
