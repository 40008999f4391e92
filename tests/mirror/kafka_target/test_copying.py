"""Apache Kafka as the target: each message of the source is in the copy once, in order, as it was,
whoever is killed, and groups go on where they were."""

import random
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from client.connection.brokers import Brokers
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.client.shipped_topics import delete_before
from tests.mirror.kafka_target.conftest import NewMirror
from tests.mirror.kafka_target.messages import (
    PATIENCE,
    committed,
    end,
    new_source,
    numbered,
    produce,
    transaction,
    wait_copied,
    with_offsets,
)
from tests.mirror.workers import partition_of, stage

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


def test_what_was_committed_and_nothing_else(
    running_kafka: ApacheKafka, kafka: Brokers, new_topic: str, new_mirror: NewMirror
) -> None:
    at, copy = running_kafka.bootstrap, f"dc1.{new_topic}"
    new_source(kafka, new_topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        options = {"bootstrap.servers": at, "compression.type": codec, "linger.ms": 20}
        plain = Producer(options)
        sure = Producer({**options, "transactional.id": f"{new_topic}-{codec}"})
        sure.init_transactions(PATIENCE)
        produce(plain, new_topic, numbered(f"plain {codec}"))
        transaction(sure, sure.abort_transaction, new_topic, numbered(f"aborted {codec}"))
        sure.begin_transaction()
        produce(sure, new_topic, numbered(f"first half {codec}"))
        produce(plain, new_topic, numbered(f"between {codec}"))
        produce(sure, new_topic, numbered(f"second half {codec}"))
        sure.commit_transaction(PATIENCE)
    mirror = new_mirror()
    with mirror:
        wait_copied(mirror, kafka, new_topic)
        found, wanted = committed(at, copy), committed(at, new_topic)
        assert found == wanted
        assert len(found) == 5 * 80
        status = mirror.told("status")
    assert f"offsets mapped by _penstock_mirror.{new_topic}" in status.stdout
    assert "target is Apache Kafka" in (mirror.config.parent / "mirror.log").read_text()


@pytest.mark.parametrize(
    "faults",
    [
        ("mirror", "mirror"),
        pytest.param(("target", "mirror", "source", "target"), marks=pytest.mark.long),
    ],
    ids=["mirror", "everybody"],
)
def test_penstock_as_the_source(  # noqa: PLR0917
    running_kafka: ApacheKafka,
    source: BrokerProcess,
    there: Brokers,
    new_topic: str,
    new_mirror: NewMirror,
    faults: Sequence[str],
) -> None:
    """Each message is there once, whoever is killed meanwhile."""
    mirror, chance = new_mirror(source.bootstrap), random.Random(1)
    new_source(there, new_topic, retention_ms="-1")
    options = {"enable.idempotence": True, "message.timeout.ms": 600_000}
    producer = Producer(
        {"bootstrap.servers": source.bootstrap, "compression.type": "zstd", **options}
    )
    copy = f"dc1.{new_topic}"

    def copied() -> int:
        return int(partition_of(mirror, copy).get("copied", 0))

    with mirror:
        for turn, fault in enumerate(faults):
            produce(producer, new_topic, numbered(f"turn {turn}", 300))
            least = copied() + chance.randint(1, 200)
            wait_until(lambda least=least: copied() >= least, what="it copies")
            killed = {"mirror": mirror, "target": running_kafka, "source": source}[fault]
            killed.kill()
            if fault != "source":
                produce(producer, new_topic, numbered(f"between {turn}"))
            killed.start()
        wait_copied(mirror, there, new_topic)
    found = committed(running_kafka.bootstrap, copy)
    assert found == committed(source.bootstrap, new_topic)


def test_a_group_goes_on_where_it_was(
    running_kafka: ApacheKafka, kafka: Brokers, new_topic: str, new_mirror: NewMirror
) -> None:
    at, copy = running_kafka.bootstrap, f"dc1.{new_topic}"
    new_source(kafka, new_topic)
    sure = Producer({"bootstrap.servers": at, "transactional.id": new_topic})
    sure.init_transactions(PATIENCE)
    for turn in range(6):
        ending = sure.abort_transaction if turn % 3 == 1 else sure.commit_transaction
        transaction(sure, ending, new_topic, numbered(f"turn {turn}"))
    wanted = with_offsets(at, new_topic)
    places = {f"{new_topic}-{number}": number for number in (0, 7, 39, 40, 55, len(wanted))}
    for group, number in places.items():
        ends = [offset for offset, _ in wanted] + [end(kafka, new_topic)]
        _commit(at, group, new_topic, ends[number])
    mirror = new_mirror(groups={"interval": 0.5})
    with mirror:
        wait_copied(mirror, kafka, new_topic)
        found = with_offsets(at, copy)
        assert [each for _, each in found] == [each for _, each in wanted]
        for group, number in places.items():
            if number:
                offsets = [offset for offset, _ in found] + [end(kafka, copy)]
                before = offsets[number - 1]
                wait_until(
                    lambda group=group, low=before, high=offsets[number]: (
                        low < _committed(at, group, copy) <= high
                    ),
                    what=f"the offset of {group} has come",
                )


def test_a_gap_stops_it_until_it_is_accepted(
    running_kafka: ApacheKafka,
    kafka: Brokers,
    new_topic: str,
    new_mirror: NewMirror,
) -> None:
    at, copy, mirror = running_kafka.bootstrap, f"dc1.{new_topic}", new_mirror()
    new_source(kafka, new_topic)
    producer = Producer({"bootstrap.servers": at})
    produce(producer, new_topic, numbered("first", 50))
    with mirror:
        wait_copied(mirror, kafka, new_topic)
    produce(producer, new_topic, numbered("lost", 50))
    delete_before(kafka, new_topic, 100)
    produce(producer, new_topic, numbered("second", 50))
    with mirror:
        wait_until(
            lambda: stage(mirror, copy) == "stopped",
            what="it has stopped",
        )
        assert "the copy ends at 50" in partition_of(mirror, copy)["trouble"]
        before = end(kafka, copy)
    accepting = new_mirror()
    accepting.process.command = accepting.command("--accept-gap", copy)
    with accepting:
        wait_copied(accepting, kafka, new_topic)
        found = [each.value for each in committed(at, copy)]
        wanted = [each.encode() for each in numbered("first", 50) + numbered("second", 50)]
        assert found == wanted
        assert end(kafka, copy) == before + 51  # nothing was left behind by who only looked


def test_what_somebody_else_writes_into_a_copy_is_found(
    running_kafka: ApacheKafka, kafka: Brokers, new_topic: str, new_mirror: NewMirror
) -> None:
    at, copy, mirror = running_kafka.bootstrap, f"dc1.{new_topic}", new_mirror()
    new_source(kafka, new_topic)
    producer = Producer({"bootstrap.servers": at})
    produce(producer, new_topic, numbered("first", 50))
    with mirror:
        wait_copied(mirror, kafka, new_topic)
        produce(producer, copy, ["of somebody else"])
        produce(producer, new_topic, numbered("second", 50))
        wait_until(
            lambda: "another producer" in partition_of(mirror, copy).get("trouble", ""),
            what="it is found",
        )


def test_what_was_compacted_is_numbered_anew(
    running_kafka: ApacheKafka, kafka: Brokers, new_topic: str, new_mirror: NewMirror
) -> None:
    at, copy, mirror = running_kafka.bootstrap, f"dc1.{new_topic}", new_mirror()
    new_source(
        kafka,
        new_topic,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_bytes="20000",
    )
    producer = Producer({"bootstrap.servers": at, "linger.ms": 50})
    for turn in range(20):
        for number in range(40):
            key = f"{turn}-{number}" if number % 4 == 0 else f"{number}"
            producer.produce(new_topic, f"{turn} {number}".ljust(100).encode(), key=key.encode())
        assert producer.flush(PATIENCE) == 0
    wait_until(lambda: len(committed(at, new_topic)) < 600, what="much was compacted")
    with mirror:
        wait_copied(mirror, kafka, new_topic)
        copied = committed(at, copy)
    assert _last_of_each_key(copied) == _last_of_each_key(committed(at, new_topic))
    assert len(copied) < 700


def test_pause_and_what_is_not_there(kafka: Brokers, new_topic: str, new_mirror: NewMirror) -> None:
    copy, mirror = f"dc1.{new_topic}", new_mirror()
    new_source(kafka, new_topic)
    assert mirror.told("pause", new_topic).returncode == 1  # no copy
    assert not kafka.refresh(None).has(f"_penstock_mirror.{new_topic}")
    with mirror:
        wait_copied(mirror, kafka, new_topic)
        mirror.done("pause", copy)
        wait_until(
            lambda: stage(mirror, copy) == "paused",
            what="it is paused",
        )
        mirror.done("resume", copy)
        wait_until(
            lambda: stage(mirror, copy) == "copying",
            what="it goes on",
        )
        for command in ("promote", "demote"):
            refused = mirror.told(command, copy)
            assert refused.returncode == 1
            assert "is Apache Kafka" in refused.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [("zookeeper: z", "run one worker"), ("registry: http://z:1", "remove `target.registry`")],
)
def test_what_it_cannot_do_there_it_refuses(
    running_kafka: ApacheKafka, new_mirror: NewMirror, setting: str, said: str
) -> None:
    mirror = new_mirror()
    text = mirror.config.read_text().replace("cluster: offline", f"cluster: offline\n  {setting}")
    mirror.config.write_text(text)
    mirror.spawn()
    assert mirror.process.wait(within=PATIENCE) == 1
    assert said in (mirror.config.parent / "mirror.log").read_text()


def _commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def _committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE)
    consumer.close()
    return int(found.offset)


def _last_of_each_key(messages: object) -> dict[bytes | None, bytes | None]:
    return {each.key: each.value for each in messages}  # type: ignore[attr-defined]
