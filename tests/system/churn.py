"""Topics that are created and deleted under the same few names while the broker is killed.

A request whose answer is lost is repeated until its outcome is known: "already exists" then means
"created", "unknown" means "deleted". So the expected topics are known at the end.
"""

import contextlib
import random
import struct
from collections.abc import Callable

from harness.processes.waiting import wait_until
from tests.system.crash import PATIENCE, Violated, Worker
from tests.system.produce import UNAVAILABLE, produce, read_values
from tests.system.raw import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    Closed,
    RawConnection,
    int16,
    int32,
    string,
)

ALREADY_EXISTS, UNKNOWN = 36, 3
NAMES = ("churned-a", "churned-b", "churned-c")


class Churner(Worker):
    """At its end `alive` has the topics that must exist, with all values of their current life."""

    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(name)
        self.alive: dict[str, set[bytes]] = {}
        self.lives = 0
        self._address = bootstrap

    def work(self) -> None:
        chance = random.Random(self.name)
        while not self.stopping:
            topic = chance.choice(NAMES)
            if topic in self.alive:
                del self.alive[topic]
                self._until(lambda topic=topic: self._delete(topic) in {0, UNKNOWN})
            else:
                self.lives += 1
                value = b"life %d" % self.lives
                self._until(lambda topic=topic, value=value: self._begin(topic, value))
                self.alive[topic] = {value}

    def _until(self, done: Callable[[], bool]) -> None:
        def is_done() -> bool:
            with contextlib.suppress(OSError, Closed):
                return done()
            return False

        wait_until(is_done, within=PATIENCE, what=f"{self.name}: it is done")

    def _begin(self, topic: str, value: bytes) -> bool:
        # What "exists already" may still be on its way out, and is then to be made once more.
        return self._create(topic) in {0, ALREADY_EXISTS} and self._write(topic, value)

    def _create(self, topic: str) -> int:
        one = string(topic) + int32(1) + int16(1) + int32(0) + int32(0)
        return self._ask(CREATE_TOPICS, 2, int32(1) + one + int32(5000) + b"\0")

    def _delete(self, topic: str) -> int:
        return self._ask(DELETE_TOPICS, 1, int32(1) + string(topic) + int32(5000))

    def _ask(self, key: int, version: int, body: bytes) -> int:
        """The error code of the only topic."""
        with RawConnection(self._address) as connection:
            answer = connection.ask(key, version, body, within=10)
        (length,) = struct.unpack_from(">h", answer, 8)
        return int(struct.unpack_from(">h", answer, 10 + length)[0])

    def _write(self, topic: str, value: bytes) -> bool:
        error = produce(self._address, topic, [value], within=10).error
        if error not in UNAVAILABLE | {0}:
            raise Violated(f"{self.name}: error {error} from {topic}")
        return error == 0

    def judge(self) -> None:
        """The expected topics exist, and contain nothing of an earlier life."""
        for topic, values in self.alive.items():
            found = set(read_values(self._address, topic).values())
            if found != values:
                raise Violated(f"{topic}: {found} instead of {values}")
