"""The controller's elections, which give the map its leaders after any change of brokers.

While this broker is the controller, it searches every snapshot of the map for elections that are
due (elections.py) and writes them: thousands in a few transactions, each by compare-and-set, all
fenced by the controller's epoch. A new controller begins with a complete look at a map that was
read after its election.

It also writes the end of reassignments whose replicas are all in sync (reassignments.py).

A single thread does this, one pass at a time, always by the newest snapshot. State that another
broker has changed meanwhile is left alone: the next snapshot has that change, and is searched in
turn. A pass looks only at topics that have changed since the last one, unless brokers have changed.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from broker.configs.topic_config import NOTHING, is_on
from broker.controller.elections import Brokers, due
from broker.controller.reassignments import finished
from cluster.controller.partition_states import StateChange, change_states
from cluster.controller.reassignments import change_replicas
from cluster.errors import Conflict, Fenced, UnknownTopic
from cluster.session.session import Session
from cluster.session.upkeep import Upkeep
from cluster.values import (
    NO_LEADER,
    NO_VERSION,
    ClusterSnapshot,
    ControllerEpoch,
    PartitionInfo,
    TopicInfo,
)
from cluster.view import ClusterView

UNCLEAN: Final = "unclean.leader.election.enable"

log = logging.getLogger(__name__)

_Looked = tuple[TopicInfo, Mapping[str, str]]  # the objects that were seen: topic, overrides


class Leaders:
    """Runs the controller's elections. `follow`, `lead` and `poke` may be called on any thread and
    return at once."""

    def __init__(self, session: Session, view: ClusterView, defaults: Mapping[str, str]) -> None:
        """`defaults`: the broker's topic config defaults."""
        self._session = session
        self._view = view
        self._defaults = defaults
        self._epoch: ControllerEpoch | None = None
        self._upkeep = Upkeep("elections", self._pass)
        self._writing = threading.Lock()  # guards the following fields
        self._looked_for: ControllerEpoch | None = None  # the epoch that the rest belongs to
        self._brokers = Brokers(frozenset())
        self._looked: dict[str, _Looked] = {}
        self._written: dict[tuple[UUID, int], int] = {}  # the version that was replaced

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The controller epoch while this broker is the controller, as far as it knows; otherwise
        None."""
        return self._epoch

    def start(self) -> None:
        self._upkeep.start()

    def close(self) -> None:
        self._upkeep.stop()

    def lead(self, epoch: ControllerEpoch | None) -> None:
        self._epoch = epoch
        self._upkeep.poke()

    def follow(self) -> None:
        if self._epoch is not None:
            self._upkeep.poke()

    def change(
        self,
        propose: Callable[[ClusterSnapshot], Sequence[StateChange]],
        epoch: ControllerEpoch,
    ) -> list[PartitionInfo | None]:
        """Writes the changes that `propose` derives from the newest snapshot. Returns the state
        after each change; None where the map has changed meanwhile. Blocks; raises Fenced,
        Unavailable."""
        with self._writing:
            return self._write(propose(self._view.snapshot), epoch)

    def _pass(self) -> None:
        epoch = self._epoch
        if epoch is None:
            return
        if self._looked_for != epoch:
            self._view.refresh()
        with self._writing:
            if self._looked_for != epoch:
                self._forget()
                self._looked_for = epoch
            try:
                self._follow(self._view.snapshot, epoch)
            except Fenced as fenced:
                self._forget()
                log.info("no longer the controller reason=%r", str(fenced))
            except BaseException:
                self._forget()  # it is unknown what was written
                raise

    def _forget(self) -> None:
        self._looked_for = None
        self._looked, self._written = {}, {}

    def _follow(self, snapshot: ClusterSnapshot, epoch: ControllerEpoch) -> None:
        brokers = Brokers.of(snapshot)
        topics = self._to_look_at(snapshot, brokers)
        changes = [
            change
            for topic, overrides in topics
            for change in due(topic, brokers, unclean=is_on(UNCLEAN, overrides, self._defaults))
        ]
        if changes:
            self._elect(changes, epoch)
        # The next snapshot will have their states.
        elected_topics = {change.topic for change in changes}
        for topic, _ in topics:
            if topic.name not in elected_topics:
                self._finish_moves(topic, brokers, epoch)

    def _to_look_at(
        self, snapshot: ClusterSnapshot, brokers: Brokers
    ) -> list[tuple[TopicInfo, Mapping[str, str]]]:
        """Topics that have changed since the last look, with their overrides."""
        old_looks = self._looked if brokers == self._brokers else {}
        self._brokers = brokers
        self._looked = {
            name: (topic, snapshot.topic_configs.get(name, NOTHING))
            for name, topic in snapshot.topics.items()
            if name not in snapshot.deleting
        }
        return [
            look for name, look in self._looked.items() if not _is_same(look, old_looks.get(name))
        ]

    def _elect(self, changes: Sequence[StateChange], epoch: ControllerEpoch) -> None:
        start_time = time.monotonic()
        states = [state for state in self._write(changes, epoch) if state is not None]
        leaderless_count = sum(state.leader == NO_LEADER for state in states)
        log.log(
            logging.WARNING if leaderless_count else logging.INFO,
            "changed leaders and in-sync replicas partitions=%d without_leader=%d seconds=%.3f",
            *(len(states), leaderless_count, time.monotonic() - start_time),
        )

    def _finish_moves(self, topic: TopicInfo, brokers: Brokers, epoch: ControllerEpoch) -> None:
        finished_moves = {
            index: replace(new_state, controller_epoch=epoch.epoch)
            for index, partition in enumerate(topic.partitions)
            if partition.move and (new_state := finished(partition, brokers)) is not None
        }
        if not finished_moves:
            return
        try:
            change_replicas(self._session, epoch, topic, finished_moves)
        except Fenced:
            raise
        except (Conflict, UnknownTopic) as error:  # the next snapshot has the change
            log.info("reassignment not completed yet topic=%s reason=%r", topic.name, str(error))
        else:
            log.info(
                "reassignment completed topic=%s partitions=%d", topic.name, len(finished_moves)
            )

    def _write(
        self, changes: Sequence[StateChange], epoch: ControllerEpoch
    ) -> list[PartitionInfo | None]:
        """Skips what was already written but does not show in the map yet."""
        self._written = {
            key: version for key, version in self._written.items() if self._is_unseen(*key, version)
        }
        unwritten_changes = {
            index: replace(change, after=replace(change.after, controller_epoch=epoch.epoch))
            for index, change in enumerate(changes)
            if self._written.get((change.topic_id, change.partition), NO_VERSION)
            < change.after.version
        }
        written_states: list[PartitionInfo | None] = [None] * len(changes)
        states = change_states(self._session, tuple(unwritten_changes.values()), epoch)
        for (index, change), state in zip(unwritten_changes.items(), states, strict=True):
            written_states[index] = state
            if state is not None:
                self._written[change.topic_id, change.partition] = change.after.version
        return written_states

    def _is_unseen(self, topic_id: UUID, index: int, replaced: int) -> bool:
        snapshot = self._view.snapshot
        name = snapshot.topic_names.get(topic_id)
        if name is None:
            return False
        partitions = snapshot.topics[name].partitions
        return index < len(partitions) and partitions[index].version <= replaced


def _is_same(looked: _Looked, before: _Looked | None) -> bool:
    return before is not None and looked[0] is before[0] and looked[1] is before[1]
