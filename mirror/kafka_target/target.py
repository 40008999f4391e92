"""Apache Kafka as the target of one mirror: the state that its parts share.

Offsets cannot be kept there: a map translates them (map_topic.py, runs.py) and marks the copies.
Created by the scanning thread; each section says which thread may call it.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from client.connection.addresses import Address
from client.connection.bootstrap import Access, Bootstrap
from client.connection.brokers import Brokers
from client.errors import Unsupported
from client.producing.delivery import TopicPartition
from client.reading.fetch_session import Key
from mirror.kafka_target.kafka_writer import KafkaWriter
from mirror.kafka_target.map_topic import MapTopic, Mark, TargetPartition
from mirror.kafka_target.outgoing import Footing
from mirror.kafka_target.resume_points import Outcomes, ResumePoints
from mirror.partitions.resume_points import PartitionPair
from mirror.topics import Topic
from wire.messages import add_partitions_to_txn
from wire.mirrored import MIRROR_OF, PAUSED

_PATIENCE_S: Final = 15.0
# Configs that would change batches or their timestamps, or have no meaning there.
NOT_FOLLOWED: Final = frozenset({"compression.type", "message.timestamp.type"})


def serves_transactions(target: Brokers) -> bool:
    """Whether the cluster can be a target without keeping offsets."""
    try:
        target.any_broker().version(add_partitions_to_txn.API)
    except Unsupported:
        return False
    return True


class KafkaTarget:
    """The shared state of one mirror's target."""

    def __init__(self, bootstrap: Bootstrap, client_id: str, mirror: str) -> None:
        """Connects to the target. Raises ClientError."""
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._mirror = mirror
        self._map = MapTopic(self._brokers(), mirror)
        self._ids: dict[str, str] = {}
        self._footings: dict[Key, Footing] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="map")

    @property
    def map_name(self) -> str:
        """The name of the map's topic."""
        return self._map.name

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._map.close()

    # Marks of copies: on the scanning thread; raises ClientError

    def marked(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        """The target's topics, with the configs by which Penstock's brokers would mark copies."""
        self._map.read()
        marks = self._map.marks()
        self._ids = {name: topic.topic_id for name, topic in topics.items()}
        return {name: self._marked(topic, marks.get(name)) for name, topic in topics.items()}

    def _marked(self, topic: Topic, mark: Mark | None) -> Topic:
        if mark is not None and not mark.topic_id and topic.topic_id:
            mark = Mark(mark.of, topic.topic_id, mark.paused)  # it was created meanwhile
            self._map.mark(topic.name, mark)
        if mark is None or mark.topic_id != topic.topic_id:
            return topic
        pause_config = {PAUSED: "true"} if mark.paused else {}
        return topic._replace(configs={**topic.configs, MIRROR_OF: mark.of, **pause_config})

    def about_to_create(self, here: str, configs: Mapping[str, str]) -> dict[str, str]:
        """Marks a topic as a copy before it is created, and returns its configs there."""
        self._map.mark(here, Mark(configs[MIRROR_OF]))
        return {name: value for name, value in configs.items() if name != MIRROR_OF}

    def pause(self, here: str, topic_id: str, *, paused: bool) -> bool:
        """Pauses or resumes a copy; False if the topic is not a copy."""
        self._map.read()
        mark = self._map.marks().get(here)
        if mark is None or mark.topic_id != topic_id:
            return False
        self._map.mark(here, Mark(mark.of, mark.topic_id, paused))
        return True

    # Resume points: any thread; raises ClientError

    def look(
        self,
        source: tuple[Address, Access],
        target: tuple[Address, Access],
        pairs: Sequence[PartitionPair],
    ) -> Outcomes:
        with self._brokers() as brokers:
            resume_points = ResumePoints(self._map, brokers, self._mirror)
            partitions = [(partition, self._place(partition.here)) for partition in pairs]
            results, footings = resume_points.look(source, target, partitions, self._client_id)
        self._footings |= footings
        return results

    # Writing: on the event loop

    def appending(self) -> KafkaWriter:
        """Creates the writer of one lane."""
        return KafkaWriter(self._footings, self._map, self._place, self._threads)

    # Groups: any thread

    def refresh(self) -> None:
        """Reads the topics again. Raises ClientError."""
        self._map.read()

    def offset(self, here: TopicPartition, source: int) -> int | None:
        """Translates an offset of the source, bounded by the copy's end; None if unknown. As of the
        last `refresh`."""
        key = here.topic, here.partition
        footing = self._footings.get(key)
        offset = self._map.target(self._place(key), source)
        return None if offset is None or footing is None else min(offset, footing.written)

    def _place(self, here: Key) -> TargetPartition:
        return TargetPartition(*here, self._ids.get(here[0], ""))

    def _brokers(self) -> Brokers:
        return Brokers(self._bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_S)
