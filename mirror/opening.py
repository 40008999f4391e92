"""A copy opened for everybody, and made a copy again: what `penstock mirror promote` and `demote`
do. Both compare the two logs first, each partition by its ends and its last batch, and change the
mark alone, unless what the source has not is to be cut off (cutting.py). Blocks.

The mirror that runs needs no word: a copy without the mark is refused to it by the target, and it
sees at its next look whose topic it is.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from client.addresses import Address
from client.admin import all_topics, alter_topic, topic_configs
from client.bootstrap import Access, Bootstrap
from client.brokers import Brokers
from client.metadata import ClusterMetadata
from ledger.names import topic_id_text
from mirror.beginnings import Again, Both, GoOn, Stop, Wanted, look
from mirror.config import MirrorConfig
from mirror.cutting import Excess, NotDone, cuts_text, excess, put_groups_back, wait_cut
from mirror.kafka_target.target import KafkaTarget, serves_transactions
from mirror.lane import CLIENT_ID
from mirror.looking import check_keeps_offsets, names_of
from mirror.topics import origin_of
from wire.mirrored import ACCEPT_GAP, CUT, MIRROR_OF, PAUSED, MirrorOf

_PATIENCE_S: Final = 15.0


class Compared(msgspec.Struct, frozen=True):
    """One partition of both; `reason` is empty if the copy's last batch is the source's."""

    partition: int
    copy_end: int
    source_end: int
    reason: str = ""


class Demoted(msgspec.Struct, frozen=True):
    """The partitions as they are now, what was cut off, and groups that were put back for it."""

    partitions: list[Compared]
    cut: list[Excess]
    groups: list[str]


class Opening:
    """Of one mirror's topics, by their names at the target."""

    def __init__(self, config: MirrorConfig) -> None:
        self._config = config

    def promote(self, here: str, *, without_source: bool = False) -> list[Compared]:
        """Opens it. What it has is all that the source has, or nobody asks the source. Raises
        NotDone, ClientError."""
        with self._target() as target:
            self._check_is_penstock(target)
            origin = self._origin(target, here)
            if origin is None:
                raise NotDone(f"{here} is no copy: it is open already")
            compared: list[Compared] = []
            if not without_source:
                with self._source() as source:
                    compared = self._compared(source, target, here, origin.topic)
                    compared += _missing(source, target, here, origin.topic)
                _check(here, compared, _behind)
            alter_topic(target, here, {MIRROR_OF: None, ACCEPT_GAP: None, PAUSED: None})
        return compared

    def demote(
        self, here: str, *, may_cut: Callable[[Sequence[Excess]], None] | None = None
    ) -> Demoted:
        """Makes it a copy again. It has nothing that the source has not; or that is cut off, which
        `may_cut` is told first, and may raise. Partitions that it does not have yet the mirror
        adds. Raises NotDone, ClientError."""
        with self._target() as target, self._source() as source:
            self._check_is_penstock(target)
            check_keeps_offsets(target, self._config.target.cluster)
            before, mark = self._origin(target, here), self._mark(source, here)
            if before is not None and (may_cut is None or before.place != mark.place):
                raise NotDone(f"{here} is a copy already")
            compared = self._compared(source, target, here, mark.topic)
            faults = [each for each in compared if _ahead(each)]
            if before == mark and not faults:
                raise NotDone(f"{here} is a copy already, and has nothing that the source has not")
            due = [self._excess(source, target, here, mark, each) for each in faults]
            changes: dict[str, str | None] = {MIRROR_OF: str(mark)}
            groups: list[str] = []
            if due:
                if may_cut is None:
                    raise NotDone(_named(due))
                may_cut(due)
                groups = put_groups_back(target, due)
                changes[CUT] = cuts_text(
                    target, here, self._configs(target, here).get(CUT, ""), due
                )
            alter_topic(target, here, changes)
            wait_cut(target, due)
        ends = {each.partition: each.first for each in due}
        after = [
            replace(e, copy_end=ends.get(e.partition, e.copy_end), reason="") for e in compared
        ]
        return Demoted(after, due, groups)

    def _mark(self, source: Brokers, here: str) -> MirrorOf:
        """Of which topic it is to be a copy."""
        names, cluster = names_of(self._config), self._config.source.cluster
        for each in all_topics(source).topics.values():
            if names.here(each.name) == here:
                return MirrorOf(cluster, each.name, topic_id_text(each.id))
        raise NotDone(f"{cluster} has no topic that would be copied to {here}")

    def _excess(
        self, source: Brokers, target: Brokers, here: str, mark: MirrorOf, fault: Compared
    ) -> Excess:
        if fault.copy_end >= 0 and not self._compacts(source, mark.topic):
            found = excess(source, target, mark.topic, here, fault.partition)
            if found.offsets:
                return found
        raise NotDone(f"{here}-{fault.partition}: {_ahead(fault)}")

    def pause(self, here: str, *, paused: bool) -> None:
        """All workers leave it alone, or go on, from their next look on."""
        with self._target() as target:
            if serves_transactions(target):
                self._pause_at_kafka(target, here, paused=paused)
                return
            if self._origin(target, here) is None:
                raise NotDone(f"{here} is no copy")
            alter_topic(target, here, {PAUSED: "true" if paused else None})

    def _pause_at_kafka(self, target: Brokers, here: str, *, paused: bool) -> None:
        topic_id = topic_id_text(target.topic(here).id)
        side = self._config.target
        with closing(KafkaTarget(side.bootstrap, CLIENT_ID, self._config.name)) as kafka:
            if not kafka.pause(here, topic_id, paused=paused):
                raise NotDone(f"{here} is no copy of this mirror's")

    def _check_is_penstock(self, target: Brokers) -> None:
        if serves_transactions(target):
            raise NotDone(
                f"the cluster {self._config.target.cluster} is Apache Kafka: copies there are open "
                "to whom its ACLs let in, and have offsets of their own. To end the mirroring of "
                "one, stop the mirror or name it in `exclude`; it cannot be made a copy again"
            )

    def _source(self) -> Brokers:
        return _brokers(self._config.source.bootstrap)

    def _target(self) -> Brokers:
        return _brokers(self._config.target.bootstrap)

    def _origin(self, target: Brokers, here: str) -> MirrorOf | None:
        target.topic(here)  # which exists
        return origin_of(self._configs(target, here))

    def _configs(self, brokers: Brokers, topic: str) -> dict[str, str]:
        return {each.name: each.value or "" for each in topic_configs(brokers, topic)}

    def _compacts(self, source: Brokers, there: str) -> bool:
        return "compact" in self._configs(source, there).get("cleanup.policy", "")

    def _compared(self, source: Brokers, target: Brokers, here: str, there: str) -> list[Compared]:
        """Partitions that both have."""
        ours, theirs = target.topic(here), source.topic(there)
        if len(ours.partitions) > len(theirs.partitions):
            raise NotDone(
                f"{here} has {len(ours.partitions)} partitions, {there} at the source has "
                f"{len(theirs.partitions)}"
            )
        by_leaders = sorted(
            (theirs.partition(each.index).leader, each.leader, each.index)
            for each in ours.partitions
        )
        compacts = self._compacts(source, there)
        found: list[Compared] = []
        for (there_id, here_id), group in groupby(by_leaders, key=lambda each: each[:2]):
            wanted = [
                Wanted((here, index), (there, index), compacts, None) for _, _, index in group
            ]
            said = look(
                _at(source.known, there_id, self._config.source.bootstrap),
                _at(target.known, here_id, self._config.target.bootstrap),
                wanted,
                CLIENT_ID,
            )
            found += [_of(index, *said[here, index]) for (_, index), *_ in wanted]
        return sorted(found, key=lambda each: each.partition)


def _missing(source: Brokers, target: Brokers, here: str, there: str) -> list[Compared]:
    """Partitions of the source that the copy lacks, as both were seen last."""
    ours, theirs = target.known.topic(here).partitions, source.known.topic(there).partitions
    return [
        Compared(each.index, -1, -1, "the copy does not have it yet")
        for each in theirs[len(ours) :]
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


def _behind(each: Compared) -> str:
    if each.reason or each.copy_end == each.source_end:
        return each.reason
    return (
        f"the copy ends at {each.copy_end}, the source at {each.source_end}: stop who writes to "
        "the source, and wait until the copy has it all"
    )


def _ahead(each: Compared) -> str:
    if each.copy_end > each.source_end:
        return (
            f"it has messages of its own from offset {each.source_end} to {each.copy_end - 1}, "
            "which would be lost"
        )
    return each.reason


def _named(due: Sequence[Excess]) -> str:
    named = "; ".join(map(str, due))
    return (
        f"{named}. They would be lost: copy them back first, or throw them away with "
        "`penstock mirror demote --cut`, or delete the topic, and it is copied anew"
    )


def _check(here: str, compared: Iterable[Compared], fault: Callable[[Compared], str]) -> None:
    faults = [f"{here}-{each.partition}: {said}" for each in compared if (said := fault(each))]
    if faults:
        more = f"; and {len(faults) - 1} more partitions" if len(faults) > 1 else ""
        raise NotDone(f"{faults[0]}{more}")
