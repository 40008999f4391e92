"""Spark's own source and sink for Kafka, under groups of its own and of ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.java.jvm import Jvm
from harness.kafka.spark_kafka import JARS, spark_jvm, spark_session
from harness.penstock.broker import BrokerProcess
from tests.system.groups.history import History, Source
from tests.system.groups.members import Members, librdkafka

pytestmark = pytest.mark.long


class Group(msgspec.Struct, frozen=True):
    """How it is named, and whether the driver joins it to learn where a topic ends, as it did
    before Spark 3.1; else it asks as an administrator."""

    option: str
    joined: bool

    def __str__(self) -> str:
        return f"{self.option}-{'joined' if self.joined else 'named'}"


class Spark(msgspec.Struct, frozen=True):
    java: Jvm
    session: Any

    def copy(self, bootstrap: str, topics: tuple[str, str], checkpoint: Path, group: Group) -> None:
        """What has come to the first topic since the last time goes to the second one."""
        asks = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
        self.session.conf().set(asks, str(group.joined).lower())
        source, target = topics
        read = self.session.readStream().format("kafka")
        for key, value in {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": source,
            "startingOffsets": "earliest",
            group.option: f"spark-{source}",
        }.items():
            read = read.option(key, value)
        columns = self.java.array("java.lang.String", "key", "value")
        written = read.load().selectExpr(columns).writeStream().format("kafka")
        for key, value in {
            "kafka.bootstrap.servers": bootstrap,
            "topic": target,
            "checkpointLocation": str(checkpoint),
        }.items():
            written = written.option(key, value)
        now = self.java.find("org.apache.spark.sql.streaming.Trigger").AvailableNow()
        written.trigger(now).start().awaitTermination()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    if JARS.classpath is None:
        pytest.skip(JARS.why_not)
    folder = tmp_path_factory.mktemp("spark")
    with spark_jvm(folder) as java:
        session = spark_session(java, folder)
        yield Spark(java, session)
        session.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "group",
    [
        Group("kafka.group.id", joined=False),
        pytest.param(Group("groupIdPrefix", joined=False), marks=pytest.mark.long),
        pytest.param(Group("kafka.group.id", joined=True), marks=pytest.mark.long),
        Group("groupIdPrefix", joined=True),
    ],
    ids=str,
)
def test_a_stream_goes_from_topic_to_topic(
    broker: BrokerProcess, spark: Spark, source: Source, tmp_path: Path, group: Group
) -> None:
    target = Source(broker.bootstrap, f"{source.topic}-copy", partitions=2)
    history = History()
    members = Members(broker.bootstrap, f"reads-{target.topic}", target.topic, history)
    topics = source.topic, target.topic
    with members.all_stopped():
        members.start("reader", librdkafka())
        for _ in range(2):
            source.write()
            spark.copy(broker.bootstrap, topics, tmp_path / "checkpoint", group)
            history.wait_for(source.written)
    assert sum(history.by_member.values()) == len(source.written)
    assert (f"group='spark-{source.topic}" in broker.log()) == group.joined
    assert "Traceback" not in broker.log()
