"""Who leads, watched in ZooKeeper by a connection that no broker's fate concerns."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.system.crash import Worker

NOBODY: Final = -1
_EVERY: Final = 0.1
Place = tuple[str, int]


class LeaderWatch(Worker):
    """Of these topics' partitions."""

    def __init__(
        self,
        address: str,
        topics: Mapping[str, int],
        changed: Callable[[Place, Mapping[str, Any], int], object] = lambda *_: None,
    ) -> None:
        """`changed` is told of each state that is seen, and its version."""
        super().__init__("leaders")
        hosts, _, self._chroot = address.partition("/")
        self._client = KazooClient(hosts=hosts, timeout=10.0, read_only=True)
        self._places = [(name, each) for name, count in topics.items() for each in range(count)]
        self._changed = changed
        self.leaders: dict[Place, int] = {}
        self.changes = 0  # from one broker to another, NOBODY in between or not
        self.unclean = 0  # to one that was not in sync
        self.without: Counter[Place] = Counter()  # how often nobody led
        self._versions: dict[Place, int] = {}
        self._last: dict[Place, int] = {}  # who led last
        self._in_sync: dict[Place, set[int]] = {}

    def leads(self, broker: int) -> bool:
        """Whether it may lead anything, as far as has been seen."""
        return len(self.leaders) < len(self._places) or broker in tuple(self.leaders.values())

    def led_by(self, broker: int) -> int:
        return list(self.leaders.values()).count(broker)

    def work(self) -> None:
        self._client.start(timeout=60)
        try:
            while not self._stop_asked.wait(_EVERY):
                with suppress(KazooException, KazooTimeoutError):
                    self._look()
        finally:
            self._client.stop()
            self._client.close()

    def _look(self) -> None:
        asked = [(each, self._client.get_async(self._node(*each))) for each in self._places]
        for place, answer in asked:  # they are awaited together
            with suppress(KazooException, KazooTimeoutError):
                content, stat = answer.get(timeout=2)
                if self._versions.get(place) != stat.version:
                    self._versions[place] = stat.version
                    self._note(place, json.loads(content), stat.version)

    def _node(self, topic: str, partition: int) -> str:
        return f"/{self._chroot}/brokers/topics/{topic}/partitions/{partition}/state"

    def _note(self, place: Place, state: Mapping[str, Any], version: int) -> None:
        leader, in_sync = state["leader"], set(state["isr"])
        before = self.leaders.get(place, NOBODY)
        self.leaders[place] = leader
        if leader == NOBODY:
            self.without[place] += before != NOBODY
        else:
            self.changes += self._last.get(place, leader) != leader
            self.unclean += leader not in self._in_sync.get(place, in_sync)
            self._last[place] = leader
        self._in_sync[place] = in_sync
        self._changed(place, state, version)
