"""Metrics of groups. The event loop counts, the HTTP thread reads."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from broker.groups.membership.values import State
from ground.http.exposition import Histogram

_PREFIX: Final = "penstock_broker_"
_STATES: Final = tuple(state for state in State if state is not State.DEAD)


class GroupCounts:
    def __init__(self) -> None:
        self.rebalances = 0
        self.committed = 0  # offsets
        self.expired = 0
        self._commits = Histogram()

    def commit(self, offsets: int, seconds: float) -> None:
        """Counts a commit that became durable `seconds` after its arrival."""
        self.committed += offsets
        self._commits.observe(seconds)

    def families(
        self, groups: Iterable[tuple[State, int]], members_bytes: int = 0
    ) -> Iterator[Metric]:
        """Returns the metrics of groups. `groups`: the state of each, and its number of members;
        `members_bytes`: the size of all members' metadata."""
        states: Counter[State] = Counter()
        member_count = 0
        for state, count in groups:
            states[state] += 1
            member_count += count
        family = GaugeMetricFamily(
            _PREFIX + "groups", "Consumer groups coordinated by this broker.", labels=["state"]
        )
        for state in _STATES:
            family.add_metric([state.value], states[state])
        yield family
        yield GaugeMetricFamily(
            _PREFIX + "group_members",
            "Members of groups coordinated by this broker.",
            value=member_count,
        )
        yield GaugeMetricFamily(
            _PREFIX + "group_members_bytes",
            "Bytes of the metadata of these members.",
            value=members_bytes,
        )
        for name, documentation, value in (
            ("group_rebalances", "Generations begun.", self.rebalances),
            ("committed_offsets", "Offsets committed.", self.committed),
            ("expired_offsets", "Offsets expired.", self.expired),
        ):
            yield CounterMetricFamily(_PREFIX + name, documentation, value=value)
        commits = HistogramMetricFamily(
            _PREFIX + "commit_seconds", "Time from a commit's arrival until it is durable."
        )
        self._commits.add_to(commits, [])
        yield commits
