"""Topics copied by the program, from one broker to another."""

import json
import os
import re
import signal
import time
from datetime import datetime
from pathlib import Path

import yaml
from confluent_kafka import Producer

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import MirrorProcess
from harness.processes.waiting import wait_until
from tests.client.shipped_topics import delete_before
from tests.deploy.mirror_alerts import check_alerts
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import batches, create, ends, values, wait_copied, write
from tests.mirror.workers import Worker, partition_of, stage, topic_of, worker
from tests.penstock.running import Ended, penstock
from wire.mirrored import MIRROR_OF, MirrorOf
from wire.record_batches.batch import CONTROL, read_header
from wire.record_batches.records import Codec


def test_a_topic_with_its_offsets_bytes_configs_and_mark(
    there: Brokers, here: Brokers, shared_topic: str, running_mirror: Worker
) -> None:
    configs = {"retention.ms": "5000000", "min.insync.replicas": "1"}
    created = admin.create_topic(there, shared_topic, partitions=3, configs=configs)
    for partition, codec in enumerate((Codec.NONE, Codec.ZSTD, Codec.GZIP)):
        write(there, shared_topic, values(0, 500 * partition), partition, codec)
    wait_copied(there, here, shared_topic, 3)
    copy = f"dc1.{shared_topic}"
    for partition in range(3):
        assert batches(here, copy, partition) == batches(there, shared_topic, partition)
    own = {e.name: e.value for e in admin.topic_configs(here, copy) if not e.is_default}
    mark = MirrorOf.parse(own.pop(MIRROR_OF) or "")
    assert (mark.cluster, mark.topic) == ("dc1", shared_topic)
    assert bool(mark.topic_id) == bool(created.id)
    assert own == {"retention.ms": "5000000"}

    write(there, shared_topic, values(0, 300), 0)
    admin.add_partitions(there, shared_topic, 4)
    admin.alter_topic(there, shared_topic, {"retention.ms": None, "max.message.bytes": "123456"})
    write(there, shared_topic, values(0, 10), 3)
    wait_copied(there, here, shared_topic, 4)
    assert batches(here, copy, 0) == batches(there, shared_topic, 0)

    def changed() -> dict[str, str | None]:
        found = admin.topic_configs(here, copy)
        return {e.name: e.value for e in found if not e.is_default and e.name != MIRROR_OF}

    wait_until(lambda: changed() == {"max.message.bytes": "123456"}, what="configs are followed")


def test_apache_kafka_as_the_source(
    running_kafka: ApacheKafka, target: BrokerProcess, here: Brokers, new_topic: str, tmp_path: Path
) -> None:
    """Every codec, idempotent and transactional producers, commits and aborts. The copy is its log,
    byte for byte but for the leader epoch."""
    at, codecs = running_kafka.bootstrap, ("none", "gzip", "snappy", "lz4", "zstd")
    mirror = worker(tmp_path, at, target.bootstrap, new_topic, groups={"sync": False})
    with Brokers(Bootstrap.of(at), patience_seconds=60) as there:
        admin.create_topic(there, new_topic, partitions=len(codecs))
        for partition, codec in enumerate(codecs):
            options = {"bootstrap.servers": at, "compression.type": codec}
            plain = Producer({**options, "enable.idempotence": True})
            sure = Producer({**options, "transactional.id": f"{new_topic}-{codec}"})
            sure.init_transactions(60)
            for ending in (sure.commit_transaction, sure.abort_transaction):
                sure.begin_transaction()
                for producer in (plain, sure):
                    for number in range(20):
                        producer.produce(new_topic, b"message %d" % number, partition=partition)
                    assert producer.flush(60) == 0
                ending(60)
        with mirror:
            wait_copied(there, here, new_topic, len(codecs))
        for partition in range(len(codecs)):
            copied = batches(here, f"dc1.{new_topic}", partition)
            assert copied == batches(there, new_topic, partition)
            controls = [each for each in copied if read_header(each).attributes & CONTROL]
            assert len(controls) == 2  # a commit and an abort


def test_what_retention_took_before_the_first_copy_is_no_gap(
    there: Brokers, here: Brokers, new_topic: str, mirror: Worker
) -> None:
    create(there, new_topic, values(0, 100))
    delete_before(there, new_topic, 50)
    mirror.start()
    wait_copied(there, here, new_topic)
    assert batches(here, f"dc1.{new_topic}")[-1] == batches(there, new_topic)[-1]


def test_a_gap_stops_a_partition_until_it_is_accepted_and_others_go_on(
    tmp_path: Path, there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    copy, mirror = f"dc1.{new_topic}", new_worker()
    create(there, new_topic, values(0, 100), partitions=2)
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    wait_until(lambda: lags(mirror) == (0, 0, 0), what="there is no lag")
    well = series_of(mirror)
    mirror.kill()
    write(there, new_topic, values(100, 100))
    delete_before(there, new_topic, 200)
    write(there, new_topic, values(200, 50))
    write(there, new_topic, values(0, 50), 1)
    mirror.start()
    wait_until(lambda: stage(mirror, copy) == "stopped", what="the partition has stopped")
    trouble = partition_of(mirror, copy)["trouble"]
    assert "the copy ends at 100" in trouble
    assert "begins at 200" in trouble
    wait_until(lambda: ends(here, copy, 2) == {0: 100, 1: 50}, what="the other goes on")
    check_alerts(tmp_path, (well, set()), (series_of(mirror), {"PenstockMirrorStopped"}))
    mirror.kill()
    with new_worker(arguments=["--accept-gap", f"{copy}:0"]):
        wait_until(lambda: ends(here, copy, 2) == {0: 250, 1: 50}, what="it goes on")


def test_a_topic_made_anew_stops_and_says_so(
    there: Brokers, here: Brokers, shared_topic: str, running_mirror: Worker
) -> None:
    create(there, shared_topic, values(0, 100))
    wait_copied(there, here, shared_topic)
    admin.delete_topic(there, shared_topic)
    wait_until(lambda: shared_topic not in admin.all_topics(there).topics, what="deleted")
    create(there, shared_topic, values(5000, 200))
    copy = f"dc1.{shared_topic}"
    wait_until(
        lambda: "was recreated" in topic_of(running_mirror, copy).get("reason", ""),
        what="it says so",
    )
    assert ends(here, copy) == {0: 100}


def test_a_topic_in_other_names_and_without_some(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    for name in (new_topic, f"{new_topic}-tmp"):
        create(there, name, values(0, 5))
    copy = f"far.{new_topic}"
    new_worker(prefix="far.", exclude=["*-tmp"]).start()
    wait_until(
        lambda: copy in admin.all_topics(here).topics and ends(here, copy) == {0: 5},
        what="it is copied",
    )
    assert batches(here, copy) == batches(there, new_topic)
    assert f"{copy}-tmp" not in admin.all_topics(here).topics


def test_bandwidth_is_held(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    rate, messages = 100_000, 5_000
    admin.create_topic(there, new_topic, partitions=2)
    for partition in range(2):
        write(there, new_topic, values(0, messages), partition)
    mirror = new_worker(bandwidth=rate)
    mirror.start()
    wait_until(lambda: figure(mirror, "bytes_total") > 0, what="it copies")
    (seen,) = re.findall(
        r"^(\S+) .* clusters scanned", mirror.process.output.read_text(), re.MULTILINE
    )
    began = datetime.fromisoformat(seen).timestamp()  # before the first byte
    copied = 0.0
    while copied < 10 * rate:
        copied = figure(mirror, "bytes_total")
        # What was asked for when a second's worth was used up comes all the same.
        assert copied <= rate * (time.time() - began + 2)
        time.sleep(0.1)


def test_lag_is_what_the_target_lacks(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, mirror: Worker
) -> None:
    create(there, new_topic, values(0, 50))
    mirror.start()
    wait_copied(there, here, new_topic)
    wait_until(lambda: lags(mirror) == (0, 0, 0), what="there is no lag")
    os.kill(target.process.pid, signal.SIGSTOP)
    try:
        # In more turns than there are buffers, each of which the target keeps.
        for first in range(50, 150, 10):
            write(there, new_topic, values(first, 10))
            wait_until(
                lambda lacks=first - 40: lags(mirror)[0] == lacks,
                what=f"lag of {first - 40} messages",
            )
        wait_until(lambda: lags(mirror)[2] > 1, what="lag in seconds")
        # Messages of about 112 bytes.
        assert 100 * 100 < lags(mirror)[1] < 100 * 200
    finally:
        os.kill(target.process.pid, signal.SIGCONT)
    wait_copied(there, here, new_topic)
    wait_until(lambda: lags(mirror) == (0, 0, 0), what="it has caught up")


def test_two_workers_share_and_the_other_takes_over(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, new_worker: NewWorker
) -> None:
    copy, everything = f"dc1.{new_topic}", set(range(4))
    zookeeper = str(yaml.safe_load(target.config.read_text())["zookeeper"])
    settings = {"zookeeper": zookeeper, "name": f"mirror-{new_topic}"}
    one, other = new_worker(**settings), new_worker(**settings)
    admin.create_topic(there, new_topic, partitions=4)

    def share(mirror: Worker) -> set[int]:
        return {each["partition"] for each in topic_of(mirror, copy).get("partitions", ())}

    def write_to_all(first: int) -> None:
        for partition in everything:
            write(there, new_topic, values(first, 20), partition)
        wait_copied(there, here, new_topic, 4)

    one.start()
    write_to_all(0)
    other.start()
    wait_until(
        lambda: (
            len(share(one)) == len(share(other)) == 2 and share(one) | share(other) == everything
        ),
        what="each has two",
    )
    write_to_all(20)
    one.kill()
    wait_until(lambda: share(other) == everything, what="the other has all")
    write_to_all(40)
    for partition in everything:
        assert batches(here, copy, partition) == batches(there, new_topic, partition)


def check(mirror: Worker, *options: str) -> Ended:
    return penstock("check-config", "mirror", str(mirror.config), *options)


def test_check_config_says_what_would_be_done(
    there: Brokers, here: Brokers, new_topic: str, mirror: Worker
) -> None:
    copy, other = f"dc1.{new_topic}", f"{new_topic}-other"
    admin.create_topic(there, new_topic, partitions=3)
    ended = check(mirror, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    would_be: dict[str, object] = {"topic": new_topic, "copy": copy, "standing": "copied"}
    would_be |= {"would_be": ["created with 3 partitions"]}
    assert json.loads(ended.stdout)["topics"] == [would_be]
    assert copy not in admin.all_topics(here).topics
    # One that is there already, and is somebody's.
    admin.create_topic(there, other, partitions=1)
    admin.create_topic(here, f"dc1.{other}", partitions=1)
    shown = check(mirror)
    assert shown.returncode == 0
    assert f"dc1.{other}  ordinary" in " ".join(shown.stdout.split("\n")).replace("   ", "  ")
    assert "note: no `target.zookeeper`" in shown.stdout


def figure(mirror: MirrorProcess, name: str) -> float:
    """Of all partitions; 0 while nobody answers."""
    _, page = mirror.http("/metrics")
    lines = (each.rpartition(" ") for each in page.splitlines())
    wanted = f"penstock_mirror_{name}"
    return sum(float(value) for series, _, value in lines if series.split("{")[0] == wanted)


def series_of(mirror: MirrorProcess) -> dict[str, str]:
    """What it shows of itself now, as if it stayed so."""
    _, page = mirror.http("/metrics")
    lines = (each.rpartition(" ") for each in page.splitlines() if each.startswith("penstock_"))
    return {series: f"{value}x90" for series, _, value in lines}


def lags(mirror: MirrorProcess) -> tuple[float, float, float]:
    """In messages, bytes and seconds."""
    shown = (figure(mirror, f"lag_{each}") for each in ("messages", "bytes", "seconds"))
    messages, size, seconds = shown
    return messages, size, seconds
