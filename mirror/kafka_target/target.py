"""Apache Kafka as the target of one mirror: what all parts of it share.

Offsets cannot be kept there: a map says where each has come (map_topic.py, runs.py), and the map is
what a copy is known by. Made by the thread that looks at both clusters; each method says whose it
is.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from client.addresses import Address
from client.bootstrap import Access, Bootstrap
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import Unsupported
from client.fetch_session import Key
from mirror.beginnings import Wanted
from mirror.kafka_target.appending import Appending
from mirror.kafka_target.beginnings import Beginnings, Found
from mirror.kafka_target.map_topic import MapTopic, Mark, Place
from mirror.kafka_target.taking import Footing
from mirror.topics import Topic
from wire.messages import add_partitions_to_txn
from wire.mirrored import MIRROR_OF, PAUSED

_PATIENCE_S: Final = 15.0
# What would change batches or their times on their way in, or has no meaning there.
NOT_FOLLOWED: Final = frozenset({"compression.type", "message.timestamp.type"})


def serves_transactions(target: Brokers) -> bool:
    """Whether it can be a target that does not keep offsets."""
    try:
        target.any_broker().version(add_partitions_to_txn.API)
    except Unsupported:
        return False
    return True


class KafkaTarget:
    """See the module."""

    def __init__(self, bootstrap: Bootstrap, client_id: str, mirror: str) -> None:
        """Raises ClientError."""
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._mirror = mirror
        self._map = MapTopic(self._brokers(), mirror)
        self._ids: dict[str, str] = {}
        self._footings: dict[Key, Footing] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="map")

    @property
    def map_name(self) -> str:
        """The topic that has the map."""
        return self._map.name

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._map.close()

    # Which topics are copies: on the looking thread; raises ClientError

    def marked(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        """Topics of the target, with what Penstock's brokers would have in their configs."""
        self._map.read()
        marks = self._map.marks()
        self._ids = {name: topic.topic_id for name, topic in topics.items()}
        return {name: self._marked(topic, marks.get(name)) for name, topic in topics.items()}

    def _marked(self, topic: Topic, mark: Mark | None) -> Topic:
        if mark is not None and not mark.topic_id and topic.topic_id:
            mark = Mark(mark.of, topic.topic_id, mark.paused)  # it is there now
            self._map.mark(topic.name, mark)
        if mark is None or mark.topic_id != topic.topic_id:
            return topic
        paused = {PAUSED: "true"} if mark.paused else {}
        return topic._replace(configs={**topic.configs, MIRROR_OF: mark.of, **paused})

    def about_to_create(self, here: str, configs: Mapping[str, str]) -> dict[str, str]:
        """What a new copy's configs are there; its mark is in the map then."""
        self._map.mark(here, Mark(configs[MIRROR_OF]))
        return {name: value for name, value in configs.items() if name != MIRROR_OF}

    def pause(self, here: str, topic_id: str, *, paused: bool) -> bool:
        """Whether it is a copy."""
        self._map.read()
        mark = self._map.marks().get(here)
        if mark is None or mark.topic_id != topic_id:
            return False
        self._map.mark(here, Mark(mark.of, mark.topic_id, paused))
        return True

    # Where copying goes on: any thread; raises ClientError

    def look(
        self,
        source: tuple[Address, Access],
        target: tuple[Address, Access],
        wanted: Sequence[Wanted],
    ) -> Found:
        with self._brokers() as brokers:
            beginnings = Beginnings(self._map, brokers, self._mirror)
            partitions = [(each, self._place(each.here)) for each in wanted]
            found, footings = beginnings.look(source, target, partitions, self._client_id)
        self._footings |= footings
        return found

    # What goes out: on the event loop

    def appending(self) -> Appending:
        """Of one lane."""
        return Appending(self._footings, self._map, self._place, self._threads)

    # Groups: any thread

    def refresh(self) -> None:
        """Raises ClientError."""
        self._map.read()

    def offset(self, here: TopicPartition, source: int) -> int | None:
        """What an offset of the source is in the copy, never beyond its end; None if nobody knows.
        As of the last `refresh`."""
        key = here.topic, here.partition
        footing = self._footings.get(key)
        found = self._map.target(self._place(key), source)
        return None if found is None or footing is None else min(found, footing.written)

    def _place(self, here: Key) -> Place:
        return Place(*here, self._ids.get(here[0], ""))

    def _brokers(self) -> Brokers:
        return Brokers(self._bootstrap, client_id=self._client_id, patience_seconds=_PATIENCE_S)
