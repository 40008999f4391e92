"""A program's metrics in Prometheus' text format, as served at `/metrics`.

A program's own families are collected for every scrape. The standard process metrics are
added.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ground.printable import path_text

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"  # what /metrics answers with

_SECONDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
_LIMITS: Final = (*(str(bound) for bound in _SECONDS), "+Inf")


def exposition_of(families: Callable[[], Iterable[Metric]]) -> Callable[[], bytes]:
    """Returns the function that writes the metrics in the format EXPOSITION_TYPE. `families` is
    called on the scraping thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    return partial(generate_latest, registry)


def certificate_family(ends: Mapping[str, float]) -> Metric:
    """The certificates' expiry by file; the same metric in every program."""
    family = GaugeMetricFamily(
        "penstock_certificate_expires_seconds",
        "When the certificate in a file ends, in seconds since 1970.",
        labels=["file"],
    )
    for file, end in ends.items():
        family.add_metric([path_text(file)], end)
    return family


def door_families(prefix: str, refused: Mapping[str, int], *, is_open: bool) -> Iterator[Metric]:
    """Returns the metrics of a program's access control. `is_open` says whether other machines can
    reach the program without a login or without TLS."""
    yield GaugeMetricFamily(
        prefix + "insecure",
        "1 if other machines reach it without a login, or show one without TLS.",
        value=int(is_open),
    )
    family = CounterMetricFamily(
        prefix + "pages_refused", "Requests for pages, and handshakes, refused.", labels=["why"]
    )
    for reason, count in sorted(refused.items()):
        family.add_metric([reason], count)
    yield family


class _Families(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


class Histogram:
    """Counts of durations in fixed buckets, and their sum."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: list[str]) -> None:
        total = 0
        buckets: list[tuple[str, float]] = []
        for limit, count in zip(_LIMITS, tuple(self._counts), strict=True):
            total += count
            buckets.append((limit, total))
        family.add_metric(labels, buckets, self._sum)
