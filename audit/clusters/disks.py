"""Polls the brokers of one cluster, on a thread of its own, for the free space on their disks, and
for the folders that they cannot write to.

Brokers state it in the ledger, too, but one whose disk is full takes no statement. Of a broker that
does not answer, the last answer counts: a restart makes no room. A broker that reports no sizes
(Apache Kafka before 3.3), or a login that may not DESCRIBE the cluster, leaves the statements.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from audit.clusters.polling import ANSWER_S, ClusterPoller
from audit.clusters.state import AuditState, BrokerDisks, ClusterState
from audit.configuration.config import Cluster
from audit.programs import Program, ProgramKind
from client.connection.brokers import Brokers
from client.errors import ClientError, NotAllowed, check
from client.rights import on_cluster
from ground.printable import one_line, path_text
from ledger.health import LONGEST_LABEL, MOST_DISKS, Disk, Health
from wire.acls import Operation
from wire.messages.describe_log_dirs import (
    API,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
    DirectoryState,
    UnwritableFolder,
)

_EVERY_S: Final = 10.0
_REFUSED_S: Final = 600.0  # each refusal is in the broker's log

log = logging.getLogger(__name__)


class DisksPoller(ClusterPoller):
    """Polls disks, and stores the answers in the cluster's state."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        standing: AuditState,
        *,
        every_seconds: float = _EVERY_S,
    ) -> None:
        super().__init__(name, cluster, about="disks", every_seconds=every_seconds)
        self._standing = standing
        self._refused_at = float("-inf")

    def _note_failure(self, error: ClientError | None) -> None:
        """Keeps the last answers. That the cluster cannot be reached is reported by its follower,
        and the missing right once."""
        if isinstance(error, NotAllowed):
            if self._refused_at < 0:
                log.warning("cannot poll disks cluster=%s why=%r", self._name, str(error))
            self._refused_at = time.monotonic()
            self._standing.note(self._name, disks_asked=True)
            self._wait(_REFUSED_S)

    def _poll(self, brokers: Brokers) -> None:
        while not self._stopping.is_set():
            answered: dict[int, BrokerDisks] = {}
            for number, broker in brokers.refresh([]).brokers.items():
                try:
                    results = _results(brokers, number)
                except NotAllowed:
                    raise
                except ClientError:
                    continue
                if results:
                    answered[number] = _broker_disks(broker.address.host, results)
            for number in [number for number, disks in answered.items() if disks.is_stuck]:
                led_topics = _led_topics(brokers, number)
                answered[number] = answered[number]._replace(unwritable=led_topics)
            self._note(answered)
            self._wait(self._every)

    def _note(self, answered: Mapping[int, BrokerDisks]) -> None:
        """Notes answers, and keeps those of brokers that are there, or hold replicas."""
        state = self._standing.clusters[self._name]
        kept = {*(broker.id for broker in state.brokers), *state.away}
        last = {number: disks for number, disks in state.disks.items() if number in kept}
        self._standing.note(self._name, disks={**last, **answered}, disks_asked=True)


def _results(brokers: Brokers, number: int) -> list[DescribeLogDirsResult]:
    # No topics: without them the answer has only the directories.
    request = DescribeLogDirsRequest(topics=())
    answer = brokers.broker(number).call(API, request, within=ANSWER_S)
    right = on_cluster(brokers.who, Operation.DESCRIBE)
    check(answer.error_code, f"the disks of broker {number}", needs=right)
    return list(filter(_has_sizes, answer.results[:MOST_DISKS]))


def _has_sizes(result: DescribeLogDirsResult) -> bool:
    return result.total_bytes > 0 and result.usable_bytes >= 0


def _broker_disks(host: str, results: Iterable[DescribeLogDirsResult]) -> BrokerDisks:
    now = time.time_ns() // 1_000_000
    disks, folders = [], []
    for result in results:
        state = DirectoryState.of(result)
        disks.append(
            Disk(
                _label(result.log_dir),
                result.usable_bytes,
                result.total_bytes,
                state.free_files,
                state.total_files,
            )
        )
        folders += [
            UnwritableFolder(
                _label(unwritable.folder),
                one_line(unwritable.reason[:LONGEST_LABEL]),
                max(0, min(unwritable.since, now)),
            )
            for unwritable in state.unwritable
        ]
    return BrokerDisks(host, tuple(disks), folders=tuple(folders[:MOST_DISKS]))


def _label(path: str) -> str:
    return path_text(path)[-LONGEST_LABEL:]


def _led_topics(brokers: Brokers, number: int) -> frozenset[str]:
    """Returns the topics with a partition that the broker leads."""
    return frozenset(
        name
        for name, topic in brokers.refresh(None).topics.items()
        if any(partition.leader == number for partition in topic.partitions)
    )


def with_polled_disks(
    programs: Iterable[Program], clusters: Mapping[str, ClusterState], now: int
) -> list[Program]:
    """Returns the programs, ordered by their last report, with the disks polled from brokers in
    place of those that they reported, and adds brokers without a report. Of several brokers with
    the same id, only the latest has polled disks."""
    polled = {
        (name, str(number)): disks
        for name, cluster in clusters.items()
        for number, disks in cluster.disks.items()
    }
    merged: list[Program] = []
    for program in sorted(programs, key=lambda program: program.heard, reverse=True):
        is_broker = program.kind is ProgramKind.BROKER
        if is_broker and (known := polled.pop((program.cluster, program.name), None)):
            health = replace(program.health, disks=known.disks)
            program = replace(  # noqa: PLW2901
                program, health=health, unwritable=known.unwritable, folders=known.folders
            )
        merged.append(program)
    merged.reverse()
    merged += [
        Program(
            kind=ProgramKind.BROKER,
            cluster=cluster,
            host=known.host,
            name=name,
            heard=now,
            health=Health(started=-1, disks=known.disks),
            unwritable=known.unwritable,
            folders=known.folders,
        )
        for (cluster, name), known in polled.items()
    ]
    return merged
