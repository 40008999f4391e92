"""Computes the growth of topics from the latest polls of log ends, without a request to a
broker."""

from typing import Final

from msgspec.structs import replace

from audit.api.answers import Rate, TopicRow
from audit.clusters.rates import RatesSeen
from audit.service.service import Service, now_millis

_OLD_MILLIS: Final = 60_000  # an older rate is not the present one
_NOT_KNOWN: Final = Rate()


def rate_of_all(service: Service, cluster: str) -> Rate:
    """Returns the rate of one cluster or all, with the time of the earliest measurement; unknown if
    any cluster's rate is unknown."""
    rates = [rate_of(service, name) for name in service.standing.clusters if cluster in {"", name}]
    if not rates or any(rate.events < 0 for rate in rates):
        return _NOT_KNOWN
    return Rate(
        sum(rate.events for rate in rates),
        min(rate.measured for rate in rates),
        max(rate.over for rate in rates),
    )


def with_rate(service: Service, row: TopicRow) -> TopicRow:
    if row.deleted:
        return row
    return replace(row, rate=rate_of(service, row.cluster, row.topic))


def rate_of(service: Service, cluster: str, topic: str | None = None) -> Rate:
    """Returns the rate of a topic, or of all topics of a cluster."""
    rates_seen = service.rates.get(cluster, RatesSeen())
    if rates_seen.measured < now_millis() - _OLD_MILLIS:
        return _NOT_KNOWN
    events = (
        sum(rates_seen.by_topic.values()) if topic is None else rates_seen.by_topic.get(topic, -1.0)
    )
    return Rate(round(events, 1), rates_seen.measured, rates_seen.over)
