"""Apache Kafka as the source: with every codec, idempotent and transactional producers, committed
and aborted transactions. The copy is its log, byte for byte but for the leader epoch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.apache_kafka import QUICK_JVM, ApacheKafka, kafka_classpath, why_no_kafka
from harness.broker_cluster import BrokerCluster
from harness.mirror_process import MirrorProcess, side
from harness.waiting import wait_until
from tests.campaigns.logs import Replica, read_batches
from tests.campaigns.mirror.judging import Case, Copy, judge
from tests.campaigns.mirror.watermarks import high
from tests.system.crash import value_of

TOPIC = "clicks"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CONTROL = 1 << 5
_WITHIN = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if kafka_classpath() is None:
        pytest.skip(why_no_kafka())
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), jvm=QUICK_JVM) as kafka:
        yield kafka


def test_the_copy_is_its_log(kafka: ApacheKafka, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, len(CODECS), 1)])[TOPIC].result(_WITHIN)
    for partition, codec in enumerate(CODECS):
        _write(kafka, partition, codec)
    with (
        BrokerCluster(tmp_path / "target", brokers=1, settings={"cluster": "offline"}) as target,
        MirrorProcess(
            tmp_path / "mirror",
            source=side("dc1", [kafka.bootstrap]),
            target=side("offline", target.bootstrap.split(",")),
            settings={"prefix": "dc1.", "topics": [TOPIC]},
        ),
    ):
        wanted = [_end(kafka, partition) for partition in range(len(CODECS))]
        wait_until(
            lambda: [high(target, f"dc1.{TOPIC}", each) for each in range(len(CODECS))] == wanted,
            within=_WITHIN,
            what="all is copied",
            every=0.3,
        )
        broker = target.brokers[1]
        target.stop_side_by_side()
        copies = {
            (TOPIC, partition): Copy(
                read_batches(kafka.data_dir / f"{TOPIC}-{partition}"),
                [Replica(1, read_batches(broker.partition_dir(f"dc1.{TOPIC}", partition)))],
            )
            for partition in range(len(CODECS))
        }
    assert judge(Case(copies)) == []
    for copy in copies.values():
        controls = [each for each in copy.target if _attributes(each.data) & _CONTROL]
        assert len(controls) == 2  # a commit and an abort


def _write(kafka: ApacheKafka, partition: int, codec: str) -> None:
    options = {"bootstrap.servers": kafka.bootstrap, "compression.type": codec}
    plain = Producer({**options, "enable.idempotence": True})
    sure = Producer({**options, "transactional.id": f"in-{codec}"})
    sure.init_transactions(_WITHIN)
    for round_, end in enumerate((sure.commit_transaction, sure.abort_transaction)):
        _produce(plain, partition, f"plain-{round_}")
        sure.begin_transaction()
        _produce(sure, partition, f"sure-{round_}")
        end(_WITHIN)
    _produce(plain, partition, "last")


def _produce(producer: Producer, partition: int, writer: str) -> None:
    for number in range(20):
        producer.produce(TOPIC, value_of(writer, number), partition=partition)
    assert producer.flush(_WITHIN) == 0


def _end(kafka: ApacheKafka, partition: int) -> int:
    batches = read_batches(kafka.data_dir / f"{TOPIC}-{partition}")
    return batches[-1].last + 1


def _attributes(data: bytes) -> int:
    return int.from_bytes(data[21:23], "big")
