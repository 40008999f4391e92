"""Prometheus metrics of groups' lags, limited in number regardless of how many groups and topics
exist.

A limited number of partitions have rows of their own, those furthest behind first. A partition
whose lag is unknown has no row, but is counted.
"""

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from audit.clusters.groups.lags import GroupsSeen
from client.groups.lag import GroupPartition, Lag

_LABELS: Final = ["cluster", "group", "topic", "partition"]

_Row = tuple[str, GroupPartition, Lag]


def group_families(
    prefix: str, groups: Mapping[str, GroupsSeen], now: int, most: int
) -> Iterator[Metric]:
    """Yields the metrics of groups. `now` is in milliseconds; `most` limits the number of
    partitions with metrics of their own."""
    clusters = sorted(groups.items())
    rows = [
        (cluster, key, lag)
        for cluster, groups_seen in clusters
        for key, lag in groups_seen.lags.items()
        if lag.messages is not None
    ]
    shown_rows = nsmallest(most, rows, key=_urgency)
    messages = GaugeMetricFamily(
        f"{prefix}group_lag_messages", "Messages that a group has not read.", labels=_LABELS
    )
    seconds = GaugeMetricFamily(
        f"{prefix}group_lag_seconds",
        "Age of the first message that a group has not read; 0 if there is none, no row if it is "
        "unknown.",
        labels=_LABELS,
    )
    for cluster, (group, target), lag in shown_rows:
        labels = [cluster, group, target.topic, str(target.partition)]
        if lag.messages is not None:
            messages.add_metric(labels, lag.messages)
        if lag.seconds is not None:
            seconds.add_metric(labels, lag.seconds)
    yield messages
    yield seconds
    omitted_count = GaugeMetricFamily(
        f"{prefix}group_lag_left_out",
        "Partitions of groups that have no row, because there are too many.",
        value=len(rows) - len(shown_rows),
    )
    yield omitted_count
    unknown_count = GaugeMetricFamily(
        f"{prefix}group_lag_unknown",
        "Partitions of groups whose lag is unknown, in messages or in seconds.",
        labels=["cluster"],
    )
    age = GaugeMetricFamily(
        f"{prefix}group_look_age_seconds",
        "Time since groups were last polled; -1 before that.",
        labels=["cluster"],
    )
    for cluster, groups_seen in clusters:
        unknown_count.add_metric(
            [cluster], sum(1 for lag in groups_seen.lags.values() if lag.unknown)
        )
        age.add_metric(
            [cluster], max(0, now - groups_seen.looked) / 1000 if groups_seen.looked else -1
        )
    yield unknown_count
    yield age


def _urgency(row: _Row) -> tuple[float, int, str, GroupPartition]:
    cluster, key, lag = row
    return -(lag.seconds or 0), -(lag.messages or 0), cluster, key
