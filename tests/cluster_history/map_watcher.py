"""Looks at the map in ZooKeeper all the while, and notes each state of each partition it sees."""

import contextlib
import json
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.cluster_history.history import History, Mapped
from tests.system.crash import Worker

_EVERY: Final = 0.1


class MapWatcher(Worker):
    """By a connection of its own, that no fault of a link concerns."""

    def __init__(self, history: History, address: str, topic: str, partitions: int) -> None:
        super().__init__("map")
        self._history = history
        self._states: dict[int, Mapped] = {}  # by partition, as seen last
        hosts, _, self._chroot = address.partition("/")
        self._client = KazooClient(hosts=hosts, timeout=10.0, read_only=True)
        self._nodes = {
            each: f"/{self._chroot}/brokers/topics/{topic}/partitions/{each}/state"
            for each in range(partitions)
        }

    def leads(self, broker: int) -> bool:
        """Whether it may lead anything, as far as has been seen."""
        states = self._states
        return len(states) < len(self._nodes) or any(
            each.leader == broker for each in tuple(states.values())
        )

    def work(self) -> None:
        seen: dict[int, int] = {}
        self._client.start(timeout=30)
        try:
            while not self.stopping:
                for partition, node in self._nodes.items():
                    with contextlib.suppress(KazooException, KazooTimeoutError):
                        self._look(partition, node, seen)
                self._stop_asked.wait(_EVERY)
        finally:
            self._client.stop()
            self._client.close()

    def _look(self, partition: int, node: str, seen: dict[int, int]) -> None:
        content, stat = self._client.get_async(node).get(timeout=2)
        if seen.get(partition) == stat.version:
            return
        seen[partition] = stat.version
        state = json.loads(content)
        seen_state = Mapped(
            partition,
            state["leader"],
            state["leader_epoch"],
            tuple(state["isr"]),
            stat.version,
        )
        self._states[partition] = seen_state
        self._history.note(seen_state)
