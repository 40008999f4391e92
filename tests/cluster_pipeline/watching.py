"""Who looks all the while: at leaders in the map, at what was acknowledged, at the verdict."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from harness.agent_process import AgentProcess
from tests.system.crash import Worker

NOBODY: Final = -1
_EVERY: Final = 0.2
_FAULTS: Final = frozenset({"unknown", "missing", "duplicated", "changed"})


class LeaderWatch(Worker):
    """Of these topics' partitions; by a connection of its own, that no broker's fate concerns."""

    def __init__(self, address: str, topics: Mapping[str, int]) -> None:
        super().__init__("leaders")
        hosts, _, self._chroot = address.partition("/")
        self._client = KazooClient(hosts=hosts, timeout=10.0, read_only=True)
        self._partitions = [(name, each) for name, count in topics.items() for each in range(count)]
        self.leaders: dict[tuple[str, int], int] = {}
        self.changes = 0  # from one broker to another, NOBODY in between or not
        self.without: dict[tuple[str, int], int] = {}  # how often nobody led
        self.brokers: frozenset[int] = frozenset()  # with a session
        self._last: dict[tuple[str, int], int] = {}

    def leads(self, broker: int) -> bool:
        return broker in self.leaders.values()

    def work(self) -> None:
        self._client.start(timeout=60)
        try:
            while not self._stop_asked.wait(_EVERY):
                with contextlib.suppress(KazooException, KazooTimeoutError):
                    self._look()
        finally:
            self._client.stop()
            self._client.close()

    def _look(self) -> None:
        asked = [
            (each, self._client.get_async(self._node(*each))) for each in self._partitions
        ]  # Answers are awaited together.
        ids = self._client.get_children_async(f"/{self._chroot}/brokers/ids")
        for partition, answer in asked:
            self._note(partition, json.loads(answer.get(timeout=5)[0])["leader"])
        self.brokers = frozenset(int(each) for each in ids.get(timeout=5))

    def _node(self, topic: str, partition: int) -> str:
        return f"/{self._chroot}/brokers/topics/{topic}/partitions/{partition}/state"

    def _note(self, partition: tuple[str, int], leader: int) -> None:
        before = self.leaders.get(partition, NOBODY)
        self.leaders[partition] = leader
        if leader == NOBODY:
            self.without[partition] = self.without.get(partition, 0) + (before != NOBODY)
        else:
            self.changes += self._last.get(partition, leader) != leader
            self._last[partition] = leader


class AcknowledgementWatch(Worker):
    """The longest time in which nothing was acknowledged, of each agent and of all together."""

    def __init__(self, agents: Sequence[AgentProcess], topic: str) -> None:
        super().__init__("acknowledgements")
        self._agents = agents
        self._topic = topic
        self.longest = {each.host: 0.0 for each in agents}
        self.longest_of_all = 0.0
        self.retries = 0

    def work(self) -> None:
        now = time.monotonic()
        seen = {each.host: 0 for each in self._agents}
        since = {each.host: now for each in self._agents}
        retries = {each.host: 0 for each in self._agents}
        while not self._stop_asked.wait(_EVERY):
            newest = max(since.values())
            for agent in self._agents:
                status = agent.status()
                topics = status["topics"] if status else []
                found = next((each for each in topics if each["name"] == self._topic), None)
                now = time.monotonic()
                if found is not None:
                    self.retries += max(0, found["retries"] - retries[agent.host])
                    retries[agent.host] = found["retries"]
                    if found["batches"] and found["batches"] != seen[agent.host]:
                        seen[agent.host] = found["batches"]
                        since[agent.host] = now
                waited = now - since[agent.host]
                self.longest[agent.host] = max(self.longest[agent.host], waited)
            self.longest_of_all = max(self.longest_of_all, time.monotonic() - newest)


class VerdictWatch(Worker):
    """What the verdict calls a fault, while nothing is lost."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        """`ask`: what the audit says of the topic now; nothing, if it does not answer."""
        super().__init__("verdict")
        self._ask = ask
        self.asked = 0
        self.faults: list[str] = []

    def work(self) -> None:
        while not self._stop_asked.wait(1.0):
            said = self._ask()
            self.asked += bool(said)
            if said.get("state") in _FAULTS:
                self.faults += [f"{said['state']}: {each['words']}" for each in said["findings"]]
