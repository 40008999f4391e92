"""Returns the remarks shown beside a verdict: text altered in transit, and files that were not
read."""

from collections import Counter

from audit.api.answers import AlteredTotal, Remark
from audit.reconciling.picture import TopicKey
from audit.service.service import Service


def remarks_of(
    service: Service, key: TopicKey, from_time: int, to_time: int
) -> tuple[list[AlteredTotal], list[Remark]]:
    """Returns altered text by kind, and remarks by file. A copy has the remarks of its origin; a
    deleted topic has none, because remarks do not say which of several topics with one name they
    are about."""
    if service.standing.is_deleted(key):
        return [], []
    return service.reading.remarks(service.reading.origin(key) or key, from_time, to_time)


def altered_in(service: Service, cluster: str, from_time: int) -> list[AlteredTotal]:
    """Returns the altered text of all topics since a time, in one cluster or all."""
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for name, _, kind, line_count, count in service.reading.altered_since(from_time):
        if cluster in {"", name}:
            lines[kind] += line_count
            counts[kind] += count
    return [AlteredTotal(kind, lines[kind], count) for kind, count in sorted(counts.items())]
