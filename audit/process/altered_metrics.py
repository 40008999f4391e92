"""Prometheus metrics of text that was altered in transit, and of files that were not read."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from audit.errors import NotNow, StoreDamaged
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY

_LABELS: Final = ["cluster", "topic", "kind"]


def altered_families(prefix: str, service: Service) -> Iterator[Metric]:
    """Yields the gauges, which cover the last day, as those of topics do."""
    lines = GaugeMetricFamily(
        f"{prefix}topic_altered_lines",
        "Lines of the last day whose text differs from the file's.",
        labels=_LABELS,
    )
    counts = GaugeMetricFamily(
        f"{prefix}topic_altered",
        "Characters replaced, bytes cut off, field values dropped, and files not read, in the last"
        " day.",
        labels=_LABELS,
    )
    try:
        rows = service.reading.altered_since(now_millis() - DAY)
    except (NotNow, StoreDamaged):
        rows = []
    for cluster, topic, kind, line_count, count in rows:
        lines.add_metric([cluster, topic, kind], line_count)
        counts.add_metric([cluster, topic, kind], count)
    yield lines
    yield counts
