"""What Prometheus gets to see of text that was altered on its way, and of files not read."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from audit.errors import NotNow, StoreDamaged
from audit.service.service import Service, now_millis
from audit.store.judged_hours import DAY

_LABELS: Final = ["cluster", "topic", "kind"]


def altered_families(prefix: str, service: Service) -> Iterator[Metric]:
    """Gauges over the last day, as those of topics are."""
    lines = GaugeMetricFamily(
        f"{prefix}topic_altered_lines",
        "Lines of the last day whose text is not what the file has.",
        labels=_LABELS,
    )
    counts = GaugeMetricFamily(
        f"{prefix}topic_altered",
        "Characters replaced, bytes cut off, field values dropped, and files not read, in the last"
        " day.",
        labels=_LABELS,
    )
    try:
        found = service.reading.altered_since(now_millis() - DAY)
    except (NotNow, StoreDamaged):
        found = []
    for cluster, topic, kind, of_lines, count in found:
        lines.add_metric([cluster, topic, kind], of_lines)
        counts.add_metric([cluster, topic, kind], count)
    yield lines
    yield counts
