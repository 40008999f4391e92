"""How fast topics grow, from what was seen of the ends of their logs last. None of it asks a
broker."""

from typing import Final

from msgspec.structs import replace

from audit.api.answers import Rate, TopicRow
from audit.clusters.rates import RatesSeen
from audit.service.service import Service, now_millis

_OLD_MILLIS: Final = 60_000  # an older rate says nothing of now
_NOT_KNOWN: Final = Rate()


def rate_of_all(service: Service, cluster: str) -> Rate:
    """Of one cluster, or of all of them; measured when the earliest was. Not known while one is
    not: it may have most."""
    found = [rate_of(service, name) for name in service.standing.clusters if cluster in {"", name}]
    if not found or any(rate.events < 0 for rate in found):
        return _NOT_KNOWN
    return Rate(
        sum(rate.events for rate in found),
        min(rate.measured for rate in found),
        max(rate.over for rate in found),
    )


def with_rate(service: Service, row: TopicRow) -> TopicRow:
    if row.deleted:
        return row
    return replace(row, rate=rate_of(service, row.cluster, row.topic))


def rate_of(service: Service, cluster: str, topic: str | None = None) -> Rate:
    """Of a topic, or of all of a cluster."""
    seen = service.rates.get(cluster, RatesSeen())
    if seen.measured < now_millis() - _OLD_MILLIS:
        return _NOT_KNOWN
    events = sum(seen.by_topic.values()) if topic is None else seen.by_topic.get(topic, -1.0)
    return Rate(round(events, 1), seen.measured, seen.over)
