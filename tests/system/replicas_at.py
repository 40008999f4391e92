"""The places of a cluster's replicas, on Penstock or Apache Kafka, and the throttles of moves."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from client.admin.topics import all_topics, broker_configs, topic_configs
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.processes.waiting import wait_until
from tests.penstock.running import At

LONG = 120
NOBODY_KNOWS = (KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT)
RATES = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
LISTS = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}


class ReplicasAt:
    """Brokers 1, 2 and 3."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.at = At(bootstrap)

    def create(self, topic: str, *replicas: Sequence[int]) -> None:
        wanted = NewTopic(
            topic, len(replicas), replica_assignment=[list(each) for each in replicas]
        )
        wait_until(lambda: self._created(wanted), within=LONG, what=f"topic {topic} is there")

    def _created(self, topic: NewTopic) -> bool:
        """False if nobody knows: librdkafka let go of the broker that it had asked, and of the
        answer with it, or found no controller yet."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            admin.create_topics([topic])[topic.topic].result(LONG)
        except KafkaException as failed:
            code = failed.args[0].code()
            if code not in {*NOBODY_KNOWS, KafkaError.TOPIC_ALREADY_EXISTS}:
                raise
            return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        with self.asked() as brokers:
            return [each.replicas for each in all_topics(brokers).topics[topic].partitions]

    def loads(self, topic: str) -> dict[int, int]:
        return dict(Counter(each for replicas in self.replicas(topic) for each in replicas))

    @contextmanager
    def asked(self) -> Iterator[Brokers]:
        """It knows where each of them is."""
        with Brokers(Bootstrap.of(self.bootstrap)) as brokers:
            all_topics(brokers)
            yield brokers

    def until_throttles_are(self, wanted: set[str], *topics: str) -> None:
        """A broker hears of them from the controller, behind who has set them."""
        wait_until(lambda: self.throttles(*topics) == wanted, within=60, what=f"throttles {wanted}")

    def throttles(self, *topics: str) -> set[str]:
        """What is set of them, anywhere."""
        with self.asked() as brokers:
            of_brokers = [each for id_ in (1, 2, 3) for each in broker_configs(brokers, id_)]
            of_topics = [each for name in topics for each in topic_configs(brokers, name)]
        return {
            each.name
            for each in (*of_brokers, *of_topics)
            if (each.name in RATES and each.value != str(2**63 - 1))
            or (each.name in LISTS and each.value)
        }
