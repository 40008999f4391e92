"""The reads and commits of a group's members, and their rules.

- Each record is read at least once.
- No partition has two owners in a generation.
- No acknowledged commit is lost: the group never resumes before the last one.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.groups import groups
from cluster.session.session import Session
from harness.processes.waiting import wait_until
from wire.consumer_protocol import pairs, read_assignment

WITHIN = 90.0


class History:
    """The threads of all members of a group write to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: set[bytes] = set()
        self._acknowledged: dict[int, int] = {}
        self.by_member: Counter[str] = Counter()

    def read(self, member: str, value: bytes) -> None:
        with self._lock:
            self._read.add(value)
            self.by_member[member] += 1

    def acknowledged(self, partition: int, offset: int) -> None:
        """In the order of commits: a partition has one owner at a time."""
        with self._lock:
            self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, 0))

    def wait_for(self, values: set[bytes]) -> None:
        """Wait until all of these were read."""
        wait_until(
            lambda: values <= self.seen, within=WITHIN, what=f"{len(values)} records are read"
        )

    def wait_until_each_reads(self, members: set[str], more: Callable[[], None]) -> None:
        """Wait until each has read something new; `more` provides it."""
        before = Counter(self.by_member)

        def all_have() -> bool:
            more()
            return all(self.by_member[each] > before[each] for each in members)

        wait_until(all_have, within=WITHIN, what=f"{sorted(members)} read", every=0.3)

    @property
    def seen(self) -> set[bytes]:
        with self._lock:
            return set(self._read)

    def check_offsets(self, bootstrap: str, group: str, topic: str) -> None:
        """Call it when the group is empty or nobody reads."""
        found = committed(bootstrap, group, topic, self._acknowledged)
        lost = {
            each: (found[each], offset)
            for each, offset in self._acknowledged.items()
            if found[each] < offset
        }
        assert self._acknowledged
        assert not lost, f"committed now, and acknowledged: {lost}"


def committed(bootstrap: str, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The committed offset; negative if there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, each) for each in partitions]
        return {each.partition: each.offset for each in consumer.committed(asked, WITHIN)}
    finally:
        consumer.close()


class Generations:
    """Observes a group's generations in ZooKeeper while members come and go."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group
        self._owners: dict[int, dict[tuple[str, int], list[str]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="generations")

    def __enter__(self) -> "Generations":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            stored = groups.read_group(self._session, self._group)
            if stored is None or not stored.members:
                continue
            owners: dict[tuple[str, int], list[str]] = defaultdict(list)
            for member in stored.members:
                for each in pairs(read_assignment(member.assignment).assigned_partitions):
                    owners[each].append(member.member_id)
            self._owners[stored.info.generation] = owners

    @property
    def last(self) -> int:
        return max(self._owners, default=0)

    def check(self) -> None:
        assert self._owners
        for generation, owners in self._owners.items():
            shared = {each: who for each, who in owners.items() if len(who) > 1}
            assert not shared, f"in generation {generation}: {shared}"


class Source:
    """Writes unique records to a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, replicas: int = 1) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self.topic = topic
        self.written: set[bytes] = set()
        self.ends = dict.fromkeys(range(partitions), 0)  # the next offset of each partition
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic(topic, partitions, replicas)]).values():
            made.result(WITHIN)

    def write(self, count: int = 100) -> None:
        values = [f"{len(self.written) + number}".encode() for number in range(count)]
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number, value in enumerate(values):
            producer.produce(self.topic, value, partition=number % self._partitions)
            self.ends[number % self._partitions] += 1
        assert producer.flush(WITHIN) == 0
        self.written.update(values)
