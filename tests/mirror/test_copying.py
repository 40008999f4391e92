"""Topics copied by the program, from one broker to another."""

import os
import re
import signal
import time
from datetime import datetime
from pathlib import Path

from client import admin
from client.brokers import Brokers
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess
from harness.waiting import wait_until
from tests.deploy.mirror_alerts import check_alerts
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import PATIENCE, batches, delete_before, ends, values, wait_copied, write
from tests.mirror.workers import partition_of
from wire.mirrored import MIRROR_OF, MirrorOf
from wire.records import Codec


def test_a_topic_with_its_offsets_bytes_configs_and_mark(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    configs = {"retention.ms": "5000000", "min.insync.replicas": "1"}
    created = admin.create_topic(there, new_topic, partitions=3, configs=configs)
    for partition, codec in enumerate((Codec.NONE, Codec.ZSTD, Codec.GZIP)):
        write(there, new_topic, values(0, 500 * partition), partition, codec)
    mirror.start()
    wait_copied(there, here, new_topic, 3)
    copy = f"dc1.{new_topic}"
    for partition in range(3):
        assert batches(here, copy, partition) == batches(there, new_topic, partition)
    own = {e.name: e.value for e in admin.topic_configs(here, copy) if not e.is_default}
    mark = MirrorOf.parse(own.pop(MIRROR_OF) or "")
    assert (mark.cluster, mark.topic, bool(mark.topic_id)) == ("dc1", new_topic, bool(created.id))
    assert own == {"retention.ms": "5000000"}

    write(there, new_topic, values(0, 300), 0)
    wait_copied(there, here, new_topic, 3)
    assert batches(here, copy, 0) == batches(there, new_topic, 0)
    assert mirror.terminate() == 0


def test_it_goes_on_where_the_copy_ends_after_a_kill(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    for turn in range(3):
        mirror.start()
        write(there, new_topic, values(turn * 1000, 1000))
        mirror.kill()
        write(there, new_topic, values(turn * 1000, 10))
    mirror.start()
    wait_copied(there, here, new_topic)
    assert batches(here, f"dc1.{new_topic}") == batches(there, new_topic)


def test_partitions_and_configs_are_followed(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    admin.create_topic(there, new_topic, partitions=1, configs={"retention.ms": "5000000"})
    mirror.start()
    wait_copied(there, here, new_topic)
    admin.add_partitions(there, new_topic, 4)
    admin.alter_topic(there, new_topic, {"retention.ms": None, "max.message.bytes": "123456"})
    write(there, new_topic, values(0, 10), 3)
    wait_copied(there, here, new_topic, 4)

    def own() -> dict[str, str | None]:
        found = admin.topic_configs(here, f"dc1.{new_topic}")
        return {e.name: e.value for e in found if not e.is_default and e.name != MIRROR_OF}

    wait_until(
        lambda: own() == {"max.message.bytes": "123456"}, within=PATIENCE, what="configs followed"
    )


def test_what_retention_took_before_the_first_copy_is_no_gap(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 100))
    delete_before(there, new_topic, 50)
    mirror.start()
    wait_copied(there, here, new_topic)
    assert batches(here, f"dc1.{new_topic}")[-1] == batches(there, new_topic)[-1]


def test_a_gap_stops_a_partition_until_it_is_accepted_and_others_go_on(
    tmp_path: Path, there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    copy, mirror = f"dc1.{new_topic}", new_worker()
    admin.create_topic(there, new_topic, partitions=2)
    write(there, new_topic, values(0, 100))
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    wait_until(lambda: lags(mirror) == (0, 0, 0), within=PATIENCE, what="there is no lag")
    well = series_of(mirror)
    mirror.kill()
    write(there, new_topic, values(100, 100))
    delete_before(there, new_topic, 200)
    write(there, new_topic, values(200, 50))
    write(there, new_topic, values(0, 50), 1)
    mirror.start()
    wait_until(
        lambda: partition_of(mirror, copy).get("stage") == "stopped",
        within=PATIENCE,
        what="the partition has stopped",
    )
    trouble = partition_of(mirror, copy)["trouble"]
    assert "the copy ends at 100" in trouble
    assert "begins at 200" in trouble
    wait_until(
        lambda: ends(here, copy, 2) == {0: 100, 1: 50}, within=PATIENCE, what="the other goes on"
    )
    check_alerts(tmp_path, (well, set()), (series_of(mirror), {"PenstockMirrorStopped"}))
    mirror.kill()
    accepting = new_worker(arguments=["--accept-gap", f"{copy}:0"])
    with accepting:
        wait_until(
            lambda: ends(here, copy, 2) == {0: 250, 1: 50}, within=PATIENCE, what="it goes on"
        )


def test_a_topic_made_anew_stops_and_says_so(
    there: Brokers, here: Brokers, new_topic: str, mirror: MirrorProcess
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 100))
    mirror.start()
    wait_copied(there, here, new_topic)
    admin.delete_topic(there, new_topic)
    wait_until(
        lambda: new_topic not in admin.all_topics(there).topics, within=PATIENCE, what="deleted"
    )
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(5000, 200))
    copy = f"dc1.{new_topic}"

    def reason() -> str:
        topics = (mirror.standing() or {}).get("topics", ())
        return "".join(each["reason"] for each in topics if each["topic"] == copy)

    wait_until(lambda: "was made anew" in reason(), within=PATIENCE, what="it says so")
    assert ends(here, copy) == {0: 100}


def test_bandwidth_is_held(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    rate, messages = 100_000, 10_000
    admin.create_topic(there, new_topic, partitions=2)
    for partition in range(2):
        write(there, new_topic, values(0, messages), partition)
    mirror = new_worker(bandwidth=rate)
    mirror.start()
    wait_until(lambda: figure(mirror, "bytes_total") > 0, within=PATIENCE, what="it copies")
    (seen,) = re.findall(
        r"^(\S+) .* clusters seen", mirror.process.output.read_text(), re.MULTILINE
    )
    began = datetime.fromisoformat(seen).timestamp()  # before the first byte
    copied = 0.0
    while copied < 20 * rate:
        copied = figure(mirror, "bytes_total")
        # What was asked for when a second's worth was used up comes all the same.
        assert copied <= rate * (time.time() - began + 2)
        time.sleep(0.1)


def test_lag_is_what_the_target_lacks(
    there: Brokers,
    here: Brokers,
    target: BrokerProcess,
    new_topic: str,
    mirror: MirrorProcess,
) -> None:
    admin.create_topic(there, new_topic, partitions=1)
    write(there, new_topic, values(0, 50))
    mirror.start()
    wait_copied(there, here, new_topic)
    wait_until(lambda: lags(mirror) == (0, 0, 0), within=PATIENCE, what="there is no lag")
    os.kill(target.process.pid, signal.SIGSTOP)
    try:
        # In more turns than there are buffers, each of which the target keeps.
        for first in range(50, 150, 10):
            write(there, new_topic, values(first, 10))
            wait_until(
                lambda lacks=first - 40: lags(mirror)[0] == lacks,
                within=PATIENCE,
                what=f"lag of {first - 40} messages",
            )
        wait_until(lambda: lags(mirror)[2] > 1, within=PATIENCE, what="lag in seconds")
        # Messages of about 112 bytes.
        assert 100 * 100 < lags(mirror)[1] < 100 * 200
    finally:
        os.kill(target.process.pid, signal.SIGCONT)
    wait_copied(there, here, new_topic)
    wait_until(lambda: lags(mirror) == (0, 0, 0), within=PATIENCE, what="it has caught up")


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
