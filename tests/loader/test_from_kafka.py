"""A load from Apache Kafka: what only that has is understood."""

import msgspec
from confluent_kafka import Producer as TheirProducer
from pyspark.sql import SparkSession

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.offsets import offsets_of
from harness.apache_kafka import ApacheKafka
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from loader.config import LoaderConfig
from schemas.envelope import Encoder
from schemas.parsing import parse
from tests.client.shipped_topics import committed
from tests.loader.application import BEGAN, Application, event_schema, landed
from tests.loader.loads import load_once, rows_of
from wire.messages.list_offsets import LATEST


def test_only_what_is_committed_lands(
    spark: SparkSession,
    running_kafka: ApacheKafka,
    running_registry: RegistryProcess,
    new_topic: str,
    config: LoaderConfig,
) -> None:
    group = f"loader-of-{new_topic}"
    there = (running_kafka.bootstrap,)
    config = msgspec.structs.replace(config, brokers=there, group=group, ledger=False)
    application = Application(running_kafka.bootstrap, running_registry.url, new_topic)
    try:
        encoder = Encoder(parse(event_schema(), strict=False), application.change(event_schema()))
        settings = {
            "bootstrap.servers": running_kafka.bootstrap,
            "transactional.id": new_topic,
            "transaction.timeout.ms": 600_000,  # else one that is open is aborted meanwhile
        }
        theirs = TheirProducer(settings)
        theirs.init_transactions(60)

        def in_transaction(source: str, count: int) -> list[tuple[str, int]]:
            theirs.begin_transaction()
            for seq in range(count):
                event = {"header": application.header(BEGAN, source, seq)}
                theirs.produce(new_topic, encoder.encode(event | application.view(seq)))
            assert theirs.flush(60) == 0
            return [(source, seq) for seq in range(count)]

        in_transaction("aborted", 5)
        application.write(3)
        theirs.abort_transaction(60)
        wanted = application.written + in_transaction("committed", 7)
        theirs.commit_transaction(60)
        in_transaction("open", 2)
        application.write(1)  # behind what is open: not yet

        first = load_once(spark, config)
        assert (first.rows, first.dead) == (10, 0)
        assert landed(rows_of(spark, config, new_topic)) == sorted(wanted)
        # 5, 3, a marker, 7, a marker; what is open begins there
        (end,) = committed(running_kafka.bootstrap, config.group, new_topic, 1)
        assert end == 17
        assert load_once(spark, config).did_nothing

        theirs.abort_transaction(60)
        application.write(1)
        # A transaction's marker is written a moment after its producer was answered.
        at_end = {TopicPartition(new_topic, 0): LATEST}
        with Brokers(Bootstrap.of(running_kafka.bootstrap)) as brokers:
            wait_until(lambda: [*offsets_of(brokers, at_end, committed=True).values()] == [22])
        second = load_once(spark, config)
        assert second.rows == 2
        assert landed(rows_of(spark, config, new_topic)) == sorted(
            [*wanted, *application.written[-2:]]
        )
    finally:
        application.close()
