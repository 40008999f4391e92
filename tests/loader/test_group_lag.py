"""The loader's progress is a consumer group: our own lag, Kafka's tool and the audit say the same
of it."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from audit import answers
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.group_lag import lag
from client.group_offsets import committed_offsets
from harness.apache_kafka import kafka_classpath, run_tool, why_no_kafka
from harness.audit_process import AuditProcess
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from loader.config import LoaderConfig
from tests.loader.application import Application
from tests.loader.loads import load_once
from tests.penstock.running import penstock

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def audit(
    running_broker: BrokerProcess, running_registry: RegistryProcess, tmp_path: Path
) -> Iterator[AuditProcess]:
    with AuditProcess(
        tmp_path / "audit",
        brokers=running_broker.bootstrap,
        registry=running_registry.url,
        settings={"groups": {"interval": 0.2}},
    ) as audit:
        yield audit


def of_ours(bootstrap: str, group: str) -> tuple[int, float]:
    """Messages and seconds, over all partitions."""
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=60) as brokers:
        found = lag(brokers, committed_offsets(brokers, [group]), time.time()).values()
    assert [each.unknown for each in found] == [""] * 2
    return (sum(each.messages or 0 for each in found), max(each.seconds or 0.0 for each in found))


def of_the_command(bootstrap: str, group: str) -> int:
    ended = penstock("groups", "describe", group, "--json", "-b", bootstrap)
    assert ended.returncode == 0, ended.stderr
    (found,) = json.loads(ended.stdout)
    return sum(each["lag"] for each in found["partitions"])


def of_kafkas_tool(bootstrap: str, group: str, directory: Path) -> int:
    asked = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    said = run_tool(GROUPS_TOOL, *asked, directory=directory, within=240).stdout.decode()
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
    row = rf"^{re.escape(group)}\s+\S+\s+\d+\s+\d+\s+\d+\s+(\d+)\s"
    rows = re.findall(row, said, re.MULTILINE)
    assert len(rows) == 2, said
    return sum(map(int, rows))


def of_the_audit(audit: AuditProcess, group: str) -> tuple[int, int] | None:
    """Messages, and milliseconds behind, as its page has them."""
    answer = audit.get("groups", answers.GroupsAnswer, group=group)
    assert answer.looks
    return next(((each.messages, each.behind) for each in answer.items), None)


def test_while_a_load_is_pending_and_after_it(
    spark: SparkSession,
    config: LoaderConfig,
    application: Application,
    running_broker: BrokerProcess,
    audit: AuditProcess,
) -> None:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka's tools cannot be had: {why_no_kafka()}")
    group, bootstrap = f"loader-of-{application.topic}", running_broker.bootstrap
    config = msgspec.structs.replace(config, group=group)

    def all_say(messages: int) -> None:
        assert of_ours(bootstrap, group)[0] == messages
        assert of_the_command(bootstrap, group) == messages
        assert of_kafkas_tool(bootstrap, group, audit.config.parent) == messages
        wait_until(
            lambda: (of_the_audit(audit, group) or (-1, -1))[0] == messages,
            within=120,
            what=f"the audit shows {messages} messages",
        )

    for partition in range(2):
        application.write(5, partition=partition)
    load_once(spark, config)
    assert of_ours(bootstrap, group) == (0, 0.0)

    application.write(7, partition=1)
    all_say(7)
    _, seconds = of_ours(bootstrap, group)
    found = of_the_audit(audit, group)
    assert found is not None
    # The messages' own times are of long ago: that long the loader has not had them.
    assert seconds > 86_400
    assert found[1] > 86_400_000

    load_once(spark, config)
    all_say(0)
    assert of_the_audit(audit, group) == (0, 0)
