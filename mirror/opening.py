"""A copy opened for everybody, and made a copy again: what `penstock mirror promote` and `demote`
do. Both compare the two logs first, each partition by its ends and its last batch, and change the
mark alone. Blocks.

The mirror that runs needs no word: a copy without the mark is refused to it by the target, and it
sees at its next look whose topic it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from client.addresses import Address
from client.admin import all_topics, alter_topic, topic_configs
from client.bootstrap import Access, Bootstrap
from client.brokers import Brokers
from client.metadata import ClusterMetadata
from ledger.names import topic_id_text
from mirror.beginnings import Again, Both, GoOn, Stop, Wanted, look
from mirror.config import MirrorConfig
from mirror.errors import MirrorFailure
from mirror.lane import CLIENT_ID
from mirror.looking import check_keeps_offsets, names_of
from mirror.topics import origin_of
from wire.mirrored import ACCEPT_GAP, MIRROR_OF, PAUSED, MirrorOf

_PATIENCE_S: Final = 15.0


class NotDone(MirrorFailure):
    """Nothing was changed: the two logs are not as they must be."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One partition of both; `reason` is empty if the copy's last batch is the source's."""

    partition: int
    copy_end: int
    source_end: int
    reason: str = ""


class Opening:
    """Of one mirror's topics, by their names at the target."""

    def __init__(self, config: MirrorConfig) -> None:
        self._config = config

    def promote(self, here: str, *, without_source: bool = False) -> list[Compared]:
        """Opens it. What it has is all that the source has, or nobody asks the source. Raises
        NotDone, ClientError."""
        with self._target() as target:
            origin = self._origin(target, here)
            if origin is None:
                raise NotDone(f"{here} is no copy: it is open already")
            compared: list[Compared] = []
            if not without_source:
                with self._source() as source:
                    compared = self._compared(source, target, here, origin.topic)
                _check(here, compared, _behind)
            alter_topic(target, here, {MIRROR_OF: None, ACCEPT_GAP: None, PAUSED: None})
        return compared

    def demote(self, here: str) -> list[Compared]:
        """Makes it a copy again. It has nothing that the source has not. Raises NotDone,
        ClientError."""
        with self._target() as target, self._source() as source:
            check_keeps_offsets(target, self._config.target.cluster)
            if self._origin(target, here) is not None:
                raise NotDone(f"{here} is a copy already")
            known = all_topics(source)
            names = names_of(self._config)
            found = [each for each in known.topics.values() if names.here(each.name) == here]
            if not found:
                cluster = self._config.source.cluster
                raise NotDone(f"{cluster} has no topic that would be copied to {here}")
            mark = MirrorOf(self._config.source.cluster, found[0].name, topic_id_text(found[0].id))
            compared = self._compared(source, target, here, found[0].name)
            _check(here, compared, _ahead)
            alter_topic(target, here, {MIRROR_OF: str(mark)})
        return compared

    def pause(self, here: str, *, paused: bool) -> None:
        """All workers leave it alone, or go on, from their next look on."""
        with self._target() as target:
            if self._origin(target, here) is None:
                raise NotDone(f"{here} is no copy")
            alter_topic(target, here, {PAUSED: "true" if paused else None})

    def _source(self) -> Brokers:
        return _brokers(self._config.source.bootstrap)

    def _target(self) -> Brokers:
        return _brokers(self._config.target.bootstrap)

    def _origin(self, target: Brokers, here: str) -> MirrorOf | None:
        target.topic(here)  # which exists
        configs = topic_configs(target, here)
        return origin_of({each.name: each.value or "" for each in configs})

    def _compared(self, source: Brokers, target: Brokers, here: str, there: str) -> list[Compared]:
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
        configs = topic_configs(source, there)
        policy = "".join(each.value or "" for each in configs if each.name == "cleanup.policy")
        found: list[Compared] = []
        for (there_id, here_id), group in groupby(by_leaders, key=lambda each: each[:2]):
            wanted = [
                Wanted((here, index), (there, index), "compact" in policy, None)
                for _, _, index in group
            ]
            said = look(
                _at(source.known, there_id, self._config.source.bootstrap),
                _at(target.known, here_id, self._config.target.bootstrap),
                wanted,
                CLIENT_ID,
            )
            found += [_of(index, *said[here, index]) for (_, index), *_ in wanted]
        missing = range(len(ours.partitions), len(theirs.partitions))
        found += [Compared(each, -1, -1, "the copy does not have it yet") for each in missing]
        return sorted(found, key=lambda each: each.partition)


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
            "which would be lost: copy them back first, or delete the topic, and it is copied anew"
        )
    return each.reason


def _check(here: str, compared: Iterable[Compared], fault: Callable[[Compared], str]) -> None:
    faults = [f"{here}-{each.partition}: {said}" for each in compared if (said := fault(each))]
    if faults:
        more = f"; and {len(faults) - 1} more partitions" if len(faults) > 1 else ""
        raise NotDone(f"{faults[0]}{more}")
