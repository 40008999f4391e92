"""Looks at groups of Kafka's kind in ZooKeeper all the while, and notes each generation it sees."""

from collections.abc import Sequence
from typing import Final

from cluster import groups
from cluster.errors import ClusterError
from cluster.session import Session
from tests.campaigns.groups.events import Saved
from tests.campaigns.history import Notebook
from tests.system.crash import Worker
from wire.consumer_protocol import pairs, read_assignment

_EVERY: Final = 0.1


class Watcher(Worker):
    """By a connection of its own, that no fault of a link concerns."""

    def __init__(self, notebook: Notebook, address: str, watched: Sequence[str]) -> None:
        super().__init__("watcher")
        self._notebook, self._groups = notebook, watched
        self._session = Session.connect(
            address, secret=None, timeout_s=4.0, connect_timeout_s=60, makes_map=False
        )

    def work(self) -> None:
        seen: dict[str, Saved] = {}
        try:
            while not self._stop_asked.wait(_EVERY):
                try:
                    found = [each for name in self._groups if (each := self._look(name))]
                except ClusterError:
                    continue
                for each in found:
                    if seen.get(each.group) != each:
                        seen[each.group] = each
                        self._notebook.note(each)
        finally:
            self._session.close()

    def _look(self, group: str) -> Saved | None:
        stored = groups.read_group(self._session, group)
        if stored is None:
            return None
        owners = {
            each.member_id: tuple(
                partition
                for _, partition in pairs(read_assignment(each.assignment).assigned_partitions)
            )
            for each in stored.members
        }
        return Saved(group, stored.info.generation, owners)
