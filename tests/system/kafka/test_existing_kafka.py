"""An existing Apache Kafka, no broker of Penstock's and no ZooKeeper: from the file to the verdict.

The brokers make no topics by themselves, as many clusters are set; agent and counter are killed on
the way. What landed is read with nothing of Penstock.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.kafka.apache_kafka import QUICK_JVM, ApacheKafka, kafka_classpath, why_no_kafka
from harness.kafka.secured_kafka import USERS, secured_kafka
from harness.logins.certificates import Authority
from harness.processes.waiting import wait_until
from tests.system.kafka.landed import landed
from tests.system.kafka.page import Reader

LINES = 1_000
SETTINGS = {"auto.create.topics.enable": "false"}
TIERS = ("agent", "broker", "hdfs")

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)]


def append(path: Path, numbers: range) -> list[str]:
    lines = [f"{path.stem} {number}" for number in numbers]
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def wait_until_counted(
    reader: Reader, since: int, events: int, tiers: Sequence[str] = TIERS[:2]
) -> None:
    """By each of these, as far as the audit has read what they say."""

    def there() -> bool:
        found = reader.verdict("shop", since)
        return found is not None and all(
            sum(each.events for each in found.tiers if each.tier == tier) == events
            for tier in tiers
        )

    wait_until(there, within=60, what=f"{events} events by {', '.join(tiers)}")


def test_the_page_leads_from_a_file_to_a_green_verdict(tmp_path: Path) -> None:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    kafka = ApacheKafka(tmp_path / "kafka", settings=SETTINGS, heap="512m", jvm=QUICK_JVM)
    with kafka:
        follow(Reader(kafka.bootstrap, tmp_path))


def test_so_it_does_where_kafka_wants_tls_and_a_login(tmp_path: Path) -> None:
    """And nobody has written the password down, nor shown it to `ps`."""
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    authority = Authority(tmp_path / "authority")
    with secured_kafka(tmp_path / "kafka", authority, settings=SETTINGS) as kafka:
        folder = tmp_path / "penstock"
        folder.mkdir()
        password = tmp_path / "password"
        password.write_text(USERS["agent"] + "\n")
        login = {"mechanism": "SCRAM-SHA-512", "user": "agent", "password_file": str(password)}
        security = {"tls": {"ca": str(authority.ca)}, "login": login}
        follow(Reader(kafka.bootstrap, folder, security))
        written = [path for path in folder.rglob("*") if path.is_file()]
        assert written
        assert [path for path in written if USERS["agent"].encode() in path.read_bytes()] == []


def follow(reader: Reader) -> None:
    since = time.time_ns() // 1_000_000 - 60_000
    reader.put_down()
    with reader.terminal():
        said = reader.type("penstock check-config agent agent.yaml", exit_code=1)
        assert "auto.create.topics.enable is false: penstock topics create shop\n" in said
        reader.next("export PENSTOCK_BOOTSTRAP=")
        reader.next("penstock registry ")
        said = reader.next("penstock check-config ")
        assert "problem:" not in said
        written = append(reader.logs / "a.log", range(LINES))
        written += append(reader.logs / "b.log", range(1))
        reader.next("penstock audit ")
        wait_until_counted(reader, since, LINES + 1)

        reader.type("kill -KILL %2 %4")  # who counts, and the agent
        written += append(reader.logs / "a.log", range(LINES, 2 * LINES))
        written += append(reader.logs / "b.log", range(1, LINES))
        reader.type(
            "penstock audit --config audit.yaml --count &\npenstock agent --config agent.yaml &\n"
        )
        wait_until_counted(reader, since, 3 * LINES)

        reader.next("penstock load ")
        wait_until_counted(reader, since, 3 * LINES, TIERS)
        said = reader.next("penstock report shop")
        for shown in reader.shown():
            assert shown in said
        assert not reader.has_more
        found = reader.verdict("shop", since)
    assert found is not None
    assert {each.tier: each.events for each in found.tiers} == dict.fromkeys(TIERS, 3 * LINES)
    assert len({each.crc_sum for each in found.tiers}) == 1
    assert (found.missing, found.excess, found.unclaimed, found.findings) == (0, 0, 0, [])
    assert landed(reader.root / "shop") == Counter(written)
