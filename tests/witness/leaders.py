"""Who leads, looked at all the while: how often the lead of each run's partition changed.

As the map in ZooKeeper has it, by a connection of its own, that no broker's fate concerns.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

NOBODY: Final = -1
_EVERY: Final = 0.2


class Leaders:
    """`with Leaders(address, topics) as leaders`: of partition 0 of each of these."""

    def __init__(self, address: str, topics: Sequence[str]) -> None:
        hosts, _, self._chroot = address.partition("/")
        self._client = KazooClient(hosts=hosts, timeout=10.0, read_only=True)
        self._topics = list(topics)
        self.now: dict[str, int] = {}  # NOBODY, while nobody leads
        self.changes: Counter[str] = Counter()  # from one broker to another
        self.unclean: Counter[str] = Counter()  # to one that was not in sync
        self._in_sync: dict[str, set[int]] = {}
        self._last: dict[str, int] = {}  # who led last
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="leaders", daemon=True)

    def __enter__(self) -> "Leaders":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asked.set()
        self._thread.join(60)

    def led_by(self, broker: int) -> int:
        """How many of them."""
        return list(self.now.values()).count(broker)

    def _watch(self) -> None:
        try:
            self._client.start(timeout=60)
            while not self._stop_asked.wait(_EVERY):
                with contextlib.suppress(KazooException, KazooTimeoutError):
                    self._look()
        finally:
            self._client.stop()
            self._client.close()

    def _look(self) -> None:
        path = f"/{self._chroot}/brokers/topics/{{}}/partitions/0/state"
        asked = [(each, self._client.get_async(path.format(each))) for each in self._topics]
        for topic, answer in asked:  # they are awaited together
            state = json.loads(answer.get(timeout=5)[0])
            self._note(topic, state["leader"], set(state["isr"]))

    def _note(self, topic: str, leader: int, in_sync: set[int]) -> None:
        self.now[topic] = leader
        before = self._in_sync.get(topic, in_sync)
        self.unclean[topic] += leader != NOBODY and leader not in before
        self._in_sync[topic] = in_sync
        if leader != NOBODY:
            self.changes[topic] += self._last.get(topic, leader) != leader
            self._last[topic] = leader
