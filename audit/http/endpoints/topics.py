"""Handles `/api/v1/topics`, all topics by hour, and `/api/v1/topic`, one topic by window."""

from typing import Final

from audit.api import answers, queries
from audit.api.answers import Rate
from audit.errors import BadQuery
from audit.http.endpoints.groups import with_groups
from audit.http.endpoints.headlines import headline_of
from audit.http.endpoints.rates import rate_of, rate_of_all, with_rate
from audit.http.endpoints.remarks import altered_in, remarks_of
from audit.http.endpoints.signatures import reservations
from audit.http.endpoints.topic_lookup import (
    at_best_pending,
    failing_in,
    failing_loads,
    former_ids,
    is_current,
    key_of,
    now_of,
    verdict,
)
from audit.http.endpoints.totals import cells, delays_of, most_events, tier_totals
from audit.reconciling.findings import State, or_empty
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY, HOUR, hour_of

_MOST_SHOWN: Final = 100  # findings and waits
_MOST_FAILING: Final = 500


def topics(service: Service, query: queries.TopicsQuery) -> answers.TopicsAnswer:
    now = now_millis()
    audit_state = service.standing
    to_hour = hour_of(now) + HOUR
    hours = range(to_hour - query.hours * HOUR, to_hour, HOUR)
    overview = service.reading.overview(query, to_hour, audit_state.is_deleted)
    failing_tables = failing_loads(service, query.cluster)[:_MOST_FAILING]
    return answers.TopicsAnswer(
        now=now,
        as_of=audit_state.as_of,
        by_state={state.value: overview.by_state[state] for state in State},
        clusters=sorted(audit_state.clusters),
        alerts=service.alerts_raised,
        page=overview.page,
        items=[with_rate(service, with_groups(service, row)) for row in overview.items],
        notices=[*audit_state.notices(), *audit_state.too_old(now)],
        failing_loads=failing_tables,
        accepted=overview.accepted,
        altered=altered_in(service, query.cluster, hours.start),
        having={state.value: overview.having[state] for state in State},
        matching={state.value: overview.matching[state] for state in State},
        headline=headline_of(
            service,
            query.cluster,
            hours,
            overview.by_state,
            failing_tables,
            now=now,
            waits=overview.having[State.PENDING] > 0,
            accepted=overview.accepted,
            dead=overview.dead,
        ),
        rate=rate_of_all(service, query.cluster),
    )


def topic(service: Service, query: queries.TopicQuery) -> answers.TopicAnswer:
    now = now_millis()
    window = service.window_millis
    from_time, to_time = queries.between(query, now=now, window=window, otherwise=DAY)
    step = _step(query.step, to_time - from_time, window)
    key = key_of(service, query.cluster, query.topic)
    topic_verdict = verdict(service, key, from_time, to_time)
    reading = service.reading
    failing_tables = failing_in(service, topic_verdict)
    altered_totals, remarks = remarks_of(service, key, from_time, to_time)
    tiers = tier_totals(topic_verdict, delays_of(service, topic_verdict, from_time, to_time))
    is_early = bool(failing_tables) or from_time > now
    state = at_best_pending(topic_verdict.state, when=is_early)
    return answers.TopicAnswer(
        cluster=key.cluster,
        topic=key.topic,
        topic_id=key.topic_id,
        former_ids=former_ids(service, key),
        state=or_empty(state, most_events(tiers)),
        now=now,
        as_of=now_of(service, key.cluster),
        from_time=from_time,
        to_time=to_time,
        step=step,
        tiers=tiers,
        flow=reading.flow(topic_verdict.origin or key, from_time, to_time),
        cells=cells(topic_verdict.windows, step),
        findings=topic_verdict.findings[:_MOST_SHOWN],
        findings_total=len(topic_verdict.findings),
        waits=topic_verdict.waits[:_MOST_SHOWN],
        waits_total=len(topic_verdict.waits),
        deleted=service.standing.is_deleted(key),
        failing_loads=failing_tables,
        altered=altered_totals,
        remarks=remarks,
        kinds=topic_verdict.totals.kinds,
        checks=reading.checks(key),
        rate=rate_of(service, key.cluster, key.topic) if is_current(service, key) else Rate(),
        reservations=reservations(service, key, from_time, to_time),
    )


def _step(step: int | None, length: int, window: int) -> int:
    """The step in whole windows; by default the smallest that is not too fine."""
    if step is None:
        least_step = -(-length // 1_500)
        return -(-least_step // window) * window
    step = -(-step // window) * window
    if length // step > queries.MOST_CELLS:
        raise BadQuery(f"`step` is too fine: more than {queries.MOST_CELLS} cells")
    return step
