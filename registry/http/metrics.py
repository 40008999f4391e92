"""Metrics of a registry, exposed to Prometheus.

Counted on the event loop, which also answers `/metrics`. A route's label is its pattern, so that
paths from clients never become labels.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ground.http.exposition import Histogram, certificate_family, exposition_of

_PREFIX: Final = "penstock_registry_"


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """Gauges of a registry at the time of a scrape."""

    versions: int
    offset: int
    connections: int
    highest_id: int
    is_writer: bool
    left_out: int = 0
    mirrored_offsets: Mapping[str, int] = {}
    failed_handshakes: int = 0
    is_insecure: bool = False


class RegistryMetrics:
    def __init__(
        self, gauges: Callable[[], Gauges], certificates: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        """`certificates`: expiry by file."""
        self._gauges = gauges
        self._certificates = certificates
        self._requests: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[tuple[str, str], Histogram] = {}
        self.exposition: Final = exposition_of(self.families)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request, which took `seconds`."""
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._seconds.get((method, route))
        if histogram is None:
            histogram = self._seconds[method, route] = Histogram()
        histogram.observe(seconds)

    def families(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            _PREFIX + "requests", "Requests answered.", labels=["method", "route", "status"]
        )
        for (method, route, status), count in self._requests.items():
            requests.add_metric([method, route, str(status)], count)
        yield requests
        seconds = HistogramMetricFamily(
            _PREFIX + "request_seconds",
            "From a request received to its answer.",
            labels=["method", "route"],
        )
        for (method, route), histogram in self._seconds.items():
            histogram.add_to(seconds, [method, route])
        yield seconds
        gauges = self._gauges()
        yield CounterMetricFamily(
            _PREFIX + "handshakes_failed",
            "TLS handshakes of clients that failed.",
            value=gauges.failed_handshakes,
        )
        for name, description, value in (
            (
                "insecure",
                "1 if reachable by other machines without login or TLS.",
                int(gauges.is_insecure),
            ),
            ("versions", "Versions of schemas, deleted ones too.", gauges.versions),
            ("highest_id", "The highest assigned id.", gauges.highest_id),
            ("offset", "Next offset to read of the registry's topic.", gauges.offset),
            ("writer", "1 while this registry is the writer.", int(gauges.is_writer)),
            ("connections", "Client connections.", gauges.connections),
            (
                "schemas_left_out",
                "Schemas skipped in the topics because their id or subject is taken.",
                gauges.left_out,
            ),
        ):
            yield GaugeMetricFamily(_PREFIX + name, description, value=value)
        mirrored_gauge = GaugeMetricFamily(
            _PREFIX + "mirrored_offset",
            "Next offset to read of another cluster's topic; -1 if it does not exist.",
            labels=["topic"],
        )
        for topic, offset in gauges.mirrored_offsets.items():
            mirrored_gauge.add_metric([topic], offset)
        yield mirrored_gauge
        yield certificate_family(self._certificates())
