"""The state of replication, as one broker sees it: metrics, and remarks for /readyz and the log.

A remark names the problem, the partitions or brokers concerned, and the remedy. A lasting problem
is logged once a minute, from the second check that finds it, so that one that passes by itself is
not mentioned. Checks run on a thread: there may be thousands of partitions.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.replicas.partition import Partition
from broker.replication.copying import Copying
from broker.replication.throttle import Throttle
from cluster.session.session import Session, SessionState
from cluster.values import NO_LEADER, ClusterSnapshot

log = logging.getLogger(__name__)

_PREFIX: Final = "penstock_broker_"
_LOOK_SECONDS: Final = 10.0
_LOOKS_BETWEEN_LINES: Final = 6
_NAMED: Final = 3  # partitions in a remark


class Remark(NamedTuple):
    """A problem with replication. `kind` identifies it; `words` have the details, which vary
    between checks."""

    kind: str
    words: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


class ReplicationStatus:
    """Metrics and remarks about replication. May be called on any thread."""

    def __init__(
        self,
        broker_id: int,
        *,
        session: Session,
        snapshot: Callable[[], ClusterSnapshot],
        partitions: Callable[[], Iterable[Partition]],
        copying: Copying,
        throttles: Mapping[str, Throttle],
        is_controller: Callable[[], bool],
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """`throttles`: by direction, `sent` or `copied`."""
        self._broker_id = broker_id
        self._session = session
        self._snapshot = snapshot
        self._partitions = partitions
        self._copying = copying
        self._throttles = throttles
        self._is_controller = is_controller
        self._look_seconds = look_seconds
        self._watching: asyncio.Task[None] | None = None
        self._seen: Counter[str] = Counter()  # number of consecutive checks, by kind

    # Log

    def start(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            self._note(await asyncio.to_thread(self.remarks))

    def _note(self, remarks: Sequence[Remark]) -> None:
        for kind in self._seen.keys() - {remark.kind for remark in remarks}:
            if self._seen.pop(kind) > 1:
                log.info("resolved: %s", kind)
        for remark in remarks:
            self._seen[remark.kind] += 1
            if self._seen[remark.kind] % _LOOKS_BETWEEN_LINES == 2:
                log.warning("%s", remark)

    # Remarks

    def remarks(self) -> list[Remark]:
        snapshot = self._snapshot()
        return [
            *self._of_coordination(snapshot),
            *self._of_headless(snapshot),
            *self._of_led(snapshot),
            *self._of_copying(),
        ]

    def _of_coordination(self, snapshot: ClusterSnapshot) -> Iterator[Remark]:
        state = self._session.state
        if state is not SessionState.CONNECTED:
            yield Remark(
                "no connection to ZooKeeper",
                f"{self._session.address} does not answer; partitions are still served, but until "
                "it is back no leaders are elected, in-sync sets do not change, and topics, "
                "users and ACLs cannot be changed",
            )
        elif (holder := snapshot.controller_id) not in snapshot.brokers:
            cause = "" if holder is None else f"broker {holder} was elected and is not registered; "
            yield Remark(
                "no controller",
                f"{cause}until a controller is elected, no leaders are elected and no topics "
                "created: this happens as soon as the last controller's ZooKeeper session expires",
            )

    def _of_headless(self, snapshot: ClusterSnapshot) -> Iterator[Remark]:
        """Partitions without a leader that have a replica here; on the controller, all of them."""
        names, awaited_brokers = [], set()
        sees_all = self._is_controller()
        for name, topic in snapshot.topics.items():
            if name in snapshot.deleting:
                continue
            for index, partition in enumerate(topic.partitions):
                is_relevant = sees_all or self._broker_id in partition.replicas
                if is_relevant and partition.leader == NO_LEADER:
                    names.append(f"{name}-{index}")
                    awaited_brokers |= set(partition.isr) - snapshot.brokers.keys()
        if names:
            yield Remark(
                "without a leader",
                f"{_counted(names)} can be neither written nor read. Acknowledged messages are "
                f"on {_brokers(awaited_brokers)}: start {_pronoun(awaited_brokers)}"
                if awaited_brokers
                else f"{_counted(names)} can be neither written nor read until the controller "
                "has elected a leader",
            )

    def _of_led(self, snapshot: ClusterSnapshot) -> Iterator[Remark]:
        short_isr_names: list[str] = []
        under_min_names: list[str] = []
        missing_brokers: set[int] = set()
        for partition in self._partitions():
            if not partition.leads or partition.offline_reason:
                continue
            info, isr_size, least = partition.info, partition.in_sync, partition.min_insync_replicas
            name = f"{partition.topic}-{partition.index}"
            if isr_size < least:
                short_isr_names.append(f"{name}: {isr_size} of {least}")
            elif isr_size < len(info.replicas):
                under_min_names.append(name)
            if isr_size < len(info.replicas):
                missing_brokers |= set(info.replicas) - set(info.isr)
        absent_brokers = missing_brokers - snapshot.brokers.keys()
        remedy_text = _remedy(absent_brokers, missing_brokers - absent_brokers)
        if short_isr_names:
            remedy = (
                remedy_text or "the topic has fewer replicas than that: lower min.insync.replicas"
            )
            yield Remark(
                "fewer in sync than min.insync.replicas",
                f"{_counted(short_isr_names)} led here, which reject acks=all: {remedy}",
            )
        if under_min_names:
            yield Remark("under-replicated", f"{_counted(under_min_names)} led here: {remedy_text}")

    def _of_copying(self) -> Iterator[Remark]:
        for leader_id, reason in sorted(self._copying.leaders_in_trouble.items()):
            yield Remark(f"cannot copy from broker {leader_id}", reason)
        troubles = sorted(self._copying.troubles.items())
        if troubles:
            descriptions = [f"{topic}-{index}: {reason}" for (topic, index), reason in troubles]
            yield Remark("not copied", _counted(descriptions))

    # Metrics

    def families(self) -> Iterator[Metric]:
        """Returns the metrics of replication, except those of single partitions (metrics.py)."""
        copying = self._copying
        yield from figures(
            self._snapshot(),
            is_controller=self._is_controller(),
            is_connected=self._session.state is SessionState.CONNECTED,
            copying=CopyingFigures(
                copying.bytes_copied, len(copying.troubles), len(copying.leaders_in_trouble)
            ),
            throttles=self._throttles,
        )


class CopyingFigures(NamedTuple):
    bytes: int = 0
    uncopied: int = 0
    leaders_in_trouble: int = 0


def figures(
    snapshot: ClusterSnapshot,
    *,
    is_controller: bool,
    is_connected: bool,
    copying: CopyingFigures,
    throttles: Mapping[str, Throttle],
) -> Iterator[Metric]:
    for name, documentation, value in (
        ("is_controller", "1 while this broker is the controller.", is_controller),
        ("zookeeper_connected", "1 while this broker is connected to ZooKeeper.", is_connected),
        (
            "uncopied_partitions",
            "Partitions followed here that cannot be copied at the moment.",
            copying.uncopied,
        ),
        (
            "leaders_in_trouble",
            "Leaders from which nothing can be copied.",
            copying.leaders_in_trouble,
        ),
    ):
        yield GaugeMetricFamily(_PREFIX + name, documentation, value=int(value))
    yield CounterMetricFamily(
        _PREFIX + "copied_bytes", "Bytes of batches copied from leaders.", value=copying.bytes
    )
    yield from _of_throttles(throttles)
    yield from _of_cluster(snapshot, is_controller=is_controller)


def _of_throttles(throttles: Mapping[str, Throttle]) -> Iterator[Metric]:
    """Metrics of moved replicas. The rate is exposed only while it is in force."""
    rates = GaugeMetricFamily(
        _PREFIX + "throttle_bytes_per_second",
        "The throttle rate in force for moved replicas.",
        labels=["side"],
    )
    throttled_bytes = CounterMetricFamily(
        _PREFIX + "throttled_bytes",
        "Bytes of batches that counted against the throttle.",
        labels=["side"],
    )
    throttled_seconds = CounterMetricFamily(
        _PREFIX + "throttle_waited_seconds",
        "Time for which copying was throttled.",
        labels=["side"],
    )
    for side, throttle in throttles.items():
        if (rate := throttle.rate) is not None:
            rates.add_metric([side], rate)
        throttled_bytes.add_metric([side], throttle.bytes_used)
        throttled_seconds.add_metric([side], throttle.seconds_waited)
    yield from (rates, throttled_bytes, throttled_seconds)


def _of_cluster(snapshot: ClusterSnapshot, *, is_controller: bool) -> Iterator[Metric]:
    """Exposed by the controller alone: all brokers see the same map, sooner or later."""
    leaderless_gauge = GaugeMetricFamily(
        _PREFIX + "partitions_without_leader", "Partitions of the cluster without a leader."
    )
    absent_gauge = GaugeMetricFamily(
        _PREFIX + "brokers_away", "Brokers with replicas that are not registered."
    )
    if is_controller:
        broker_ids: set[int] = set()
        leaderless_count = 0
        for name, topic in snapshot.topics.items():
            if name not in snapshot.deleting:
                for partition in topic.partitions:
                    broker_ids.update(partition.replicas)
                    leaderless_count += partition.leader == NO_LEADER
        leaderless_gauge.add_metric([], leaderless_count)
        absent_gauge.add_metric([], len(broker_ids - snapshot.brokers.keys()))
    yield leaderless_gauge
    yield absent_gauge


def _counted(names: Sequence[str]) -> str:
    shown_names = ", ".join(islice(names, _NAMED))
    ellipsis = ", …" if len(names) > _NAMED else ""
    return f"{len(names)} partition{'s' * (len(names) != 1)} ({shown_names}{ellipsis})"


def _brokers(ids: Set[int]) -> str:
    return f"broker{'s' * (len(ids) != 1)} {', '.join(map(str, sorted(ids)))}"


def _pronoun(ids: Set[int]) -> str:
    return "it" if len(ids) == 1 else "them"


def _remedy(away: Set[int], behind: Set[int]) -> str:
    """Why replicas are not in sync, and the remedy."""
    reasons = []
    if away:
        reasons.append(f"{_brokers(away)} {_verb(away)} down: start {_pronoun(away)}")
    if behind:
        reasons.append(
            f"{_brokers(behind)} {_verb(behind)} running and catching up: /readyz there reports "
            "what prevents it"
        )
    return "; ".join(reasons)


def _verb(ids: Set[int]) -> str:
    return "is" if len(ids) == 1 else "are"
