"""Topics that are copies, with real brokers, real clients, and Apache Kafka as the source."""

import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from harness.apache_kafka import ApacheKafka
from harness.asked_metadata import NOBODY
from harness.broker_cluster import BrokerCluster
from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.broker.api.mirroring import MARK, fetched, mirror, source_batch, source_bytes
from tests.broker.api.running_broker import RawClient
from tests.system.clients import kcat
from tests.system.clients.kcat import Kcat
from tests.system.topics import create
from wire.batch import headers
from wire.errors import ErrorCode
from wire.mirrored import MIRROR_OF
from wire.records import Codec

TOPIC = "dc1.page_views"


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


def all_of(bootstrap: str, topic: str, offset: int = 0) -> bytes:
    """All that consumers see from there on, as it stands in the log."""
    found = bytearray()
    with RawClient(port_of(bootstrap)) as client:
        while data := bytes(_records(client, topic, offset)):
            found += data
            offset = [header.next_offset for _, header in headers(data)][-1]
    return bytes(found)


def _records(client: RawClient, topic: str, offset: int) -> bytes | memoryview:
    answer = fetched(client, topic, offset)
    assert answer.error_code is ErrorCode.none
    assert isinstance(answer.records, bytes | memoryview)
    return answer.records


def test_foreign_clients_read_a_copy_and_cannot_write_to_it(
    running_broker: BrokerProcess, new_topic: str
) -> None:
    bootstrap = running_broker.bootstrap
    create(bootstrap, new_topic, configs={MIRROR_OF: MARK})
    sent = source_batch(912, content=b"one", codec=Codec.ZSTD) + source_batch(915, content=b"two")
    with RawClient(port_of(bootstrap)) as client:
        assert mirror(client, new_topic, sent).error_code is ErrorCode.none
    with closing(
        Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    ) as consumer:
        consumer.assign([TopicPartition(new_topic, 0, 0)])
        found = []
        wait_until(
            lambda: (
                (message := consumer.poll(0.2)) is not None
                and message.error() is None
                and found.append((message.offset(), message.value())) is None
                and len(found) == 6
            ),
            within=60,
            what="all of the copy is read",
        )
    assert found == [(912 + at, b"one" if at < 3 else b"two") for at in range(6)]
    if kcat.installed():
        seen = Kcat().consume(bootstrap, new_topic, 0, "beginning", 6)
        assert [each.offset for each in seen] == list(range(912, 918))
    failed: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(new_topic, b"mine", partition=0, on_delivery=note)
    producer.flush(60)
    (error,) = failed
    assert error is not None
    assert error.code() == KafkaError.POLICY_VIOLATION


def test_what_apache_kafka_has_is_taken_byte_for_byte(
    running_broker: BrokerProcess, running_kafka: ApacheKafka, new_topic: str
) -> None:
    """Plain, compressed, transactional, aborted, and the markers of the transactions."""
    create(running_kafka.bootstrap, new_topic)
    plain = Producer({"bootstrap.servers": running_kafka.bootstrap, "compression.type": "lz4"})
    producer = Producer(
        {"bootstrap.servers": running_kafka.bootstrap, "transactional.id": new_topic}
    )
    producer.init_transactions(60)
    for number in range(6):
        plain.produce(new_topic, 100 * b"p", partition=0)
        plain.flush(60)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(new_topic, b"%d" % number, partition=0)
        producer.flush(60)
        if number % 3 == 1:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    source = all_of(running_kafka.bootstrap, new_topic)
    found = [header for _, header in headers(source)]
    assert any(header.is_control for header in found)
    assert any(header.is_transactional and not header.is_control for header in found)
    create(running_broker.bootstrap, new_topic, configs={MIRROR_OF: MARK})
    with RawClient(port_of(running_broker.bootstrap)) as client:
        half = len(found) // 2
        at = sum(header.size for header in found[:half])
        for part in (source[:at], source, source[at:]):
            assert mirror(client, new_topic, part).error_code is ErrorCode.none
        refused = fetched(client, new_topic, isolation=1).error_code
        assert refused is ErrorCode.unsupported_version
    copy = all_of(running_broker.bootstrap, new_topic)
    assert source_bytes(copy) == source_bytes(source)


class _Copier(threading.Thread):
    """Copies a log to whoever leads, beginning anew with each error a little before the end."""

    def __init__(self, cluster: BrokerCluster, batches: list[bytes]) -> None:
        super().__init__()
        self._cluster = cluster
        self._batches = batches
        self.copied = 0
        self.refused: list[ErrorCode] = []

    def run(self) -> None:
        due = time.monotonic() + 240
        while self.copied < len(self._batches) and time.monotonic() < due:
            leader = self._cluster.leader(TOPIC, 0)
            if leader != NOBODY:
                with suppress(OSError, AssertionError):  # it has gone
                    self._copy_to(leader)
            time.sleep(0.1)

    def _copy_to(self, leader: int) -> None:
        port = port_of(self._cluster.brokers[leader].bootstrap)
        with RawClient(port) as client:
            while self.copied < len(self._batches):
                first = max(0, self.copied - 3)
                part = b"".join(self._batches[first : first + 6])
                answer = mirror(client, TOPIC, part)
                if answer.error_code is not ErrorCode.none:
                    self.refused.append(answer.error_code)
                    return
                self.copied = min(first + 6, len(self._batches))


def test_a_leader_is_killed_while_it_is_copied_to(tmp_path: Path) -> None:
    batches = [
        source_batch(7_000_000_000 + 3 * at, content=b"%d" % at + bytes(500)) for at in range(3_000)
    ]
    with BrokerCluster(tmp_path, brokers=3) as cluster:
        configs = {MIRROR_OF: MARK, "min.insync.replicas": "2"}
        cluster.create_topic(TOPIC, replicas=[(1, 2, 3)], configs=configs)
        cluster.wait_in_sync(TOPIC, 1, within=60)
        copier = _Copier(cluster, batches)
        copier.start()
        try:
            for kill_at in (50, 600, 1500):
                wait_until(
                    lambda at=kill_at: copier.copied >= at,
                    within=120,
                    what=f"{kill_at} batches are copied",
                )
                leader = cluster.leader(TOPIC, 0)
                cluster.kill(leader)
                wait_until(
                    lambda old=leader: cluster.leader(TOPIC, 0) not in {NOBODY, old},
                    within=60,
                    what="another broker leads",
                )
                cluster.start()
                cluster.wait_in_sync(TOPIC, 1, within=120)
        finally:
            copier.join(300)
        assert copier.copied == len(batches), copier.refused
        assert ErrorCode.invalid_record not in copier.refused
        assert ErrorCode.out_of_order_sequence_number not in copier.refused
        cluster.wait_in_sync(TOPIC, 1, within=120)
        for broker in cluster.brokers.values():
            paths = broker.partition_dir(TOPIC).glob("*.log")
            content = b"".join(path.read_bytes() for path in sorted(paths))
            assert source_bytes(content) == source_bytes(b"".join(batches))
