"""Promotion of a copy to an ordinary topic, and demotion to a copy: `penstock mirror promote` and
`demote`. Both first compare the two logs, each partition by its ends and last batch, and change
only the mark, unless excess messages are to be cut off (truncation.py). Blocks.

The running mirror need not be told: the target refuses its writes to a topic without the mark, and
its next scan shows the change.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from client.admin.topics import all_topics, alter_topic, topic_configs
from client.connection.addresses import Address
from client.connection.bootstrap import Access, Bootstrap
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from ledger.names import topic_id_text
from mirror.clusters.scanner import check_keeps_offsets, names_of
from mirror.config import MirrorConfig
from mirror.cutover.truncation import Excess, NotDone, cuts_text, excess, put_groups_back, wait_cut
from mirror.kafka_target.target import KafkaTarget, serves_transactions
from mirror.partitions.lane import CLIENT_ID
from mirror.partitions.resume_points import Again, Both, GoOn, PartitionPair, Stop, look
from mirror.topics import origin_of
from wire.mirrored import ACCEPT_GAP, CUT, MIRROR_OF, PAUSED, MirrorOf

_PATIENCE_S: Final = 15.0


class Compared(msgspec.Struct, frozen=True):
    """A partition on both sides; `reason` is empty if the copy's last batch matches the
    source's."""

    partition: int
    copy_end: int
    source_end: int
    reason: str = ""


class Demoted(msgspec.Struct, frozen=True):
    """The partitions after a demotion, the deleted messages, and the groups that were reset."""

    partitions: list[Compared]
    cut: list[Excess]
    groups: list[str]


class Promotion:
    """Promotes or demotes topics of one mirror, by their names at the target."""

    def __init__(self, config: MirrorConfig) -> None:
        self._config = config

    def promote(self, here: str, *, without_source: bool = False) -> list[Compared]:
        """Makes the copy an ordinary topic. It must have all messages of the source, unless
        `without_source`. Raises NotDone, ClientError."""
        with self._target() as target:
            self._check_is_penstock(target)
            origin = self._origin(target, here)
            if origin is None:
                raise NotDone(f"{here} is not a copy: it is an ordinary topic already")
            comparisons: list[Compared] = []
            if not without_source:
                with self._source() as source:
                    comparisons = self._compared(source, target, here, origin.topic)
                    comparisons += _missing(source, target, here, origin.topic)
                _check(here, comparisons, _behind)
            alter_topic(target, here, {MIRROR_OF: None, ACCEPT_GAP: None, PAUSED: None})
        return comparisons

    def demote(
        self, here: str, *, may_cut: Callable[[Sequence[Excess]], None] | None = None
    ) -> Demoted:
        """Makes the topic a copy again. Deletes messages that the source lacks, but calls `may_cut`
        first, which may raise to prevent that. The mirror adds missing partitions. Raises NotDone
        or ClientError."""
        with self._target() as target, self._source() as source:
            self._check_is_penstock(target)
            check_keeps_offsets(target, self._config.target.cluster)
            origin, mark = self._origin(target, here), self._mark(source, here)
            if origin is not None and (may_cut is None or origin.place != mark.place):
                raise NotDone(f"{here} is a copy already")
            comparisons = self._compared(source, target, here, mark.topic)
            faults = [partition for partition in comparisons if _ahead(partition)]
            if origin == mark and not faults:
                raise NotDone(
                    f"{here} is already a copy, and has no messages that the source lacks"
                )
            excesses = [self._excess(source, target, here, mark, partition) for partition in faults]
            changes: dict[str, str | None] = {MIRROR_OF: str(mark)}
            groups: list[str] = []
            if excesses:
                if may_cut is None:
                    raise NotDone(_named(excesses))
                may_cut(excesses)
                groups = put_groups_back(target, excesses)
                changes[CUT] = cuts_text(
                    target, here, self._configs(target, here).get(CUT, ""), excesses
                )
            alter_topic(target, here, changes)
            wait_cut(target, excesses)
        ends = {excess.partition: excess.first for excess in excesses}
        partitions = [
            replace(
                partition,
                copy_end=ends.get(partition.partition, partition.copy_end),
                reason="",
            )
            for partition in comparisons
        ]
        return Demoted(partitions, excesses, groups)

    def _mark(self, source: Brokers, here: str) -> MirrorOf:
        """The mark for the topic: the source topic that it is to be a copy of."""
        names, cluster = names_of(self._config), self._config.source.cluster
        for topic in all_topics(source).topics.values():
            if names.here(topic.name) == here:
                return MirrorOf(cluster, topic.name, topic_id_text(topic.id))
        raise NotDone(f"{cluster} has no topic that would be copied to {here}")

    def _excess(
        self, source: Brokers, target: Brokers, here: str, mark: MirrorOf, fault: Compared
    ) -> Excess:
        if fault.copy_end >= 0 and not self._compacts(source, mark.topic):
            excess_messages = excess(source, target, mark.topic, here, fault.partition)
            if excess_messages.offsets:
                return excess_messages
        raise NotDone(f"{here}-{fault.partition}: {_ahead(fault)}")

    def pause(self, here: str, *, paused: bool) -> None:
        """Pauses or resumes copying a topic; all workers follow at their next scan."""
        with self._target() as target:
            if serves_transactions(target):
                self._pause_at_kafka(target, here, paused=paused)
                return
            if self._origin(target, here) is None:
                raise NotDone(f"{here} is not a copy")
            alter_topic(target, here, {PAUSED: "true" if paused else None})

    def _pause_at_kafka(self, target: Brokers, here: str, *, paused: bool) -> None:
        topic_id = topic_id_text(target.topic(here).id)
        side = self._config.target
        with closing(KafkaTarget(side.bootstrap, CLIENT_ID, self._config.name)) as kafka:
            if not kafka.pause(here, topic_id, paused=paused):
                raise NotDone(f"{here} is not a copy of this mirror")

    def _check_is_penstock(self, target: Brokers) -> None:
        if serves_transactions(target):
            raise NotDone(
                f"the cluster {self._config.target.cluster} is Apache Kafka, where copies are open "
                "to all that its ACLs permit, and have their own offsets. To end the mirroring of "
                "a topic, stop the mirror or add it to `exclude`; it cannot be made a copy again"
            )

    def _source(self) -> Brokers:
        return _brokers(self._config.source.bootstrap)

    def _target(self) -> Brokers:
        return _brokers(self._config.target.bootstrap)

    def _origin(self, target: Brokers, here: str) -> MirrorOf | None:
        target.topic(here)  # raises if it does not exist
        return origin_of(self._configs(target, here))

    def _configs(self, brokers: Brokers, topic: str) -> dict[str, str]:
        return {config.name: config.value or "" for config in topic_configs(brokers, topic)}

    def _compacts(self, source: Brokers, there: str) -> bool:
        return "compact" in self._configs(source, there).get("cleanup.policy", "")

    def _compared(self, source: Brokers, target: Brokers, here: str, there: str) -> list[Compared]:
        """Compare the partitions that both have."""
        copy_topic, source_topic = target.topic(here), source.topic(there)
        if len(copy_topic.partitions) > len(source_topic.partitions):
            raise NotDone(
                f"{here} has {len(copy_topic.partitions)} partitions, {there} at the source has "
                f"{len(source_topic.partitions)}"
            )
        by_leaders = sorted(
            (source_topic.partition(partition.index).leader, partition.leader, partition.index)
            for partition in copy_topic.partitions
        )
        compacts = self._compacts(source, there)
        comparisons: list[Compared] = []
        for (source_leader, target_leader), group in groupby(
            by_leaders, key=lambda leaders: leaders[:2]
        ):
            pairs = [
                PartitionPair((here, index), (there, index), compacts, None)
                for _, _, index in group
            ]
            results = look(
                _at(source.known, source_leader, self._config.source.bootstrap),
                _at(target.known, target_leader, self._config.target.bootstrap),
                pairs,
                CLIENT_ID,
            )
            comparisons += [_of(index, *results[here, index]) for (_, index), *_ in pairs]
        return sorted(comparisons, key=lambda partition: partition.partition)


def _missing(source: Brokers, target: Brokers, here: str, there: str) -> list[Compared]:
    """Partitions of the source that the copy lacks, as of the last metadata."""
    copy_partitions, source_partitions = (
        target.known.topic(here).partitions,
        source.known.topic(there).partitions,
    )
    return [
        Compared(partition.index, -1, -1, "the copy does not have it yet")
        for partition in source_partitions[len(copy_partitions) :]
    ]


def _brokers(bootstrap: Bootstrap) -> Brokers:
    return Brokers(bootstrap, client_id=CLIENT_ID, patience_seconds=_PATIENCE_S)


def _at(known: ClusterMetadata, broker: int, bootstrap: Bootstrap) -> tuple[Address, Access]:
    return known.brokers[broker].address, bootstrap.access


def _of(partition: int, decided: GoOn | Stop | Again, both: Both | None) -> Compared:
    reason = "" if isinstance(decided, GoOn) else decided.reason
    if both is None:
        return Compared(partition, -1, -1, reason)
    return Compared(partition, both.target.end, both.source.end, reason)


def _behind(partition: Compared) -> str:
    if partition.reason or partition.copy_end == partition.source_end:
        return partition.reason
    return (
        f"the copy ends at {partition.copy_end}, the source at {partition.source_end}: stop the "
        "source's producers, and wait until the copy has caught up"
    )


def _ahead(partition: Compared) -> str:
    if partition.copy_end > partition.source_end:
        return (
            f"it has messages of its own from offset {partition.source_end} to "
            f"{partition.copy_end - 1}, which would be lost"
        )
    return partition.reason


def _named(due: Sequence[Excess]) -> str:
    partitions = "; ".join(map(str, due))
    return (
        f"{partitions}. They would be lost: copy them back first, cut them off with "
        "`penstock mirror demote --cut`, or delete the topic, so that it is copied again"
    )


def _check(here: str, compared: Iterable[Compared], fault: Callable[[Compared], str]) -> None:
    faults = [
        f"{here}-{partition.partition}: {text}"
        for partition in compared
        if (text := fault(partition))
    ]
    if faults:
        other_faults = f"; and {len(faults) - 1} more partitions" if len(faults) > 1 else ""
        raise NotDone(f"{faults[0]}{other_faults}")
