"""Measures, once a minute, the lags of agents, groups and loaders, and changes of groups and
brokers, which no ledger records.

Belongs to the writer thread. Changes between two minutes are stored at once.
"""

from collections.abc import Iterator
from typing import Final

from audit.api.answers import Mark
from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.state import BrokerFacts
from audit.service.service import Service, now_millis
from audit.store.fleet.lags import AGENT, FILES, GROUP, MINUTE, MeasuredLag
from audit.store.store import AuditStore

_OLD_POLLS: Final = 3  # poll intervals after which groups' lags are too old


class Measurements:
    """Stores lags, and changes of groups and brokers, once a minute."""

    def __init__(self, service: Service, store: AuditStore) -> None:
        self._service = service
        self._store = store
        self._minute = 0  # the last measured one
        self._brokers: dict[str, dict[int, BrokerFacts]] = {}  # by cluster, as last seen
        self._marks: list[Mark] = []

    def take(self) -> None:
        """Takes the measurements that are due. Raises StoreDamaged, AuditStoreError."""
        now = now_millis()
        self._marks += self._brokers_changed(now)
        self._marks += self._service.taken_marks()
        minute = now // MINUTE
        if minute == self._minute and not self._marks:
            return
        kinds: list[tuple[str, str]] = []
        lags: list[MeasuredLag] = []
        if minute != self._minute:
            kinds, lags = self._measured(now)
        if not (kinds or self._marks):
            return  # nothing is known yet
        self._store.keep_measured(now, kinds, lags, self._marks)
        self._marks = []
        if kinds:
            self._minute = minute

    def _measured(self, now: int) -> tuple[list[tuple[str, str]], list[MeasuredLag]]:
        """Returns the measured kinds with their clusters, and the lags. A cluster whose ledger is
        not read to its end is unknown."""
        service = self._service
        read_clusters = {
            name for name, cluster in service.standing.clusters.items() if cluster.read
        }
        kinds = [(kind, name) for kind in (AGENT, FILES) for name in sorted(read_clusters)]
        lags = service.reading.agent_lags()
        lags += [
            MeasuredLag(FILES, row.cluster, row.topic, row.consumer, row.lag)
            for row in service.reading.consumers()
        ]
        oldest_poll = now - int(_OLD_POLLS * service.config.groups.interval * 1000)
        for name, groups_seen in list(service.groups.items()):
            if groups_seen.looked >= oldest_poll and not (
                groups_seen.troubles and not groups_seen.lags
            ):
                kinds.append((GROUP, name))
                lags += _of_groups(name, groups_seen)
        return kinds, lags

    def _brokers_changed(self, now: int) -> Iterator[Mark]:
        for name, state in self._service.standing.clusters.items():
            if not state.looked or state.unreachable:
                continue
            brokers = {broker.id: broker for broker in state.brokers}
            former_brokers = self._brokers.get(name)
            self._brokers[name] = brokers
            if former_brokers is None:
                continue
            for broker_id in sorted(former_brokers.keys() ^ brokers.keys()):
                is_gone = broker_id in former_brokers
                broker = former_brokers[broker_id] if is_gone else brokers[broker_id]
                yield Mark(
                    time=now,
                    kind="broker",
                    cluster=name,
                    group=str(broker_id),
                    words=f"Broker {broker_id} at {broker.address} "
                    + ("left the cluster" if is_gone else "joined the cluster"),
                )


def _of_groups(cluster: str, seen: GroupsSeen) -> Iterator[MeasuredLag]:
    for row in seen.rows:
        yield MeasuredLag(GROUP, cluster, row.topic, row.group, max(0, row.messages), row.behind)
