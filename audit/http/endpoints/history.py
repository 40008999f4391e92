"""Handles the marks on the time axis, and the history of delays and lags."""

from typing import Final

from audit.api import answers, queries
from audit.http.endpoints.topic_lookup import key_of
from audit.http.endpoints.totals import of_copy, percentile
from audit.reconciling.picture import Tier, TierKind
from audit.service.service import Service, now_millis
from audit.store.fleet.lags import LagsQuery
from audit.store.fleet.marks import MarksQuery
from audit.store.judged_hours import DAY
from audit.store.topics.topics import Delays

_MOST_MARKS: Final = 500
_BY_COUNTING: Final = (TierKind.BROKER, TierKind.ORIGIN, TierKind.MIRROR)


def marks(service: Service, query: queries.HistoryQuery) -> answers.Marks:
    from_time, to_time = _between(service, query)
    cluster, topic = _place(service, query)
    marks_query = MarksQuery(from_time, to_time, cluster, topic, query.host)
    marks = service.reading.marks(marks_query)
    return answers.Marks(
        from_time=from_time, to_time=to_time, marks=marks[:_MOST_MARKS], total=len(marks)
    )


def history(service: Service, query: queries.HistoryQuery) -> answers.HistoryAnswer:
    from_time, to_time = _between(service, query)
    cluster, topic = _place(service, query)
    lags = service.reading.lags(LagsQuery(cluster, topic, query.host, from_time, to_time))
    return answers.HistoryAnswer(
        from_time=from_time,
        to_time=to_time,
        step=lags.step,
        measured=lags.measured,
        lags=lags.series,
        delays=_delays(service, query, from_time, to_time) if topic else [],
    )


def _between(service: Service, query: queries.HistoryQuery) -> tuple[int, int]:
    return queries.between(query, now=now_millis(), window=service.window_millis, otherwise=DAY)


def _place(service: Service, query: queries.HistoryQuery) -> tuple[str, str]:
    """The cluster and topic of a query. Raises Unknown, NotNow, BadQuery."""
    if not query.topic:
        return query.cluster, ""
    key = key_of(service, query.cluster, query.topic)
    return key.cluster, key.topic


def _delays(
    service: Service, query: queries.HistoryQuery, from_time: int, to_time: int
) -> list[answers.TierDelays]:
    """Delays by hour and tier; none of brokers, which count at intervals of their own."""
    key = key_of(service, query.cluster, query.topic)
    reading = service.reading
    by_hour = reading.delays_by_hour(key, from_time, to_time)
    if (origin := reading.origin(key)) is not None:
        origin_delays = reading.delays_by_hour(origin, from_time, to_time)
        by_hour = {
            hour: of_copy(by_hour.get(hour, {}), origin_delays.get(hour, {}))
            for hour in sorted(by_hour.keys() | origin_delays.keys())
        }
    tiers = sorted({tier for hour_delays in by_hour.values() for tier in hour_delays})
    return [
        answers.TierDelays(
            tier=tier.kind.value, destination=tier.destination, points=_points(by_hour, tier)
        )
        for tier in tiers
        if tier.kind not in _BY_COUNTING
    ]


def _points(by_hour: dict[int, Delays], tier: Tier) -> list[answers.DelayPoint]:
    return [
        answers.DelayPoint(hour, sum(counts), percentile(counts, 0.50), percentile(counts, 0.99))
        for hour, hour_delays in by_hour.items()
        if (counts := hour_delays.get(tier))
    ]
