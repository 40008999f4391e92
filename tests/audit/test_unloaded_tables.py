"""Tables that no load commits anything of, in an audit at work on a real ledger: never green, told
with the cure, and over as soon as a load succeeds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import pytest

from audit import answers
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from cluster.zookeeper import EmbeddedZooKeeper
from harness.audit_process import AuditProcess
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.pipeline_said import DESTINATION, WINDOW, Said

HOUR: Final = 3_600_000
NOW: Final = int(time.time() * 1000)
BEGAN: Final = (NOW - 3 * HOUR) // HOUR * HOUR

Write = Callable[[Sequence[Entry]], None]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[tuple[str, str]]:
    """Of brokers that keep no ledger themselves."""
    with ExitStack() as stack:
        broker = stack.enter_context(
            BrokerProcess(
                tmp_path_factory.mktemp("broker"), zookeeper=f"{zookeeper.address}/unloaded"
            )
        )
        registry = stack.enter_context(
            RegistryProcess(tmp_path_factory.mktemp("registry"), brokers=broker.bootstrap)
        )
        yield broker.bootstrap, registry.url


@pytest.fixture(scope="module")
def write(cluster: tuple[str, str]) -> Iterator[Write]:
    """Adds to its `_audit`."""
    bootstrap, registry = cluster
    with Brokers(Bootstrap.of(bootstrap)) as brokers, RegistryClient(registry) as client:

        def write(entries: Sequence[Entry]) -> None:
            write_entries(brokers, client, entries, timestamp=NOW)

        yield write


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: tuple[str, str], write: Write
) -> Iterator[AuditProcess]:
    write(said("other", missing=(5, 9)).entries())
    bootstrap, registry = cluster
    directory = tmp_path_factory.mktemp("audit")
    settings = {"grace": 0, "alerts": {"after": 0, "silent": 1e6}}
    with AuditProcess(directory, brokers=bootstrap, registry=registry, settings=settings) as audit:
        yield audit


def said(topic: str, missing: tuple[int, int] = (0, 0)) -> Said:
    path = f"/var/log/{topic}.log"
    return Said(topic, f"host-of-{topic}", path, BEGAN, missing=missing, until=NOW + 10 * HOUR)


def state_of(audit: AuditProcess, topic: str) -> str:
    """Empty while nothing is known of it."""
    found = audit.get("topics", answers.TopicsAnswer, search=topic).items
    return next((each.state.value for each in found if each.topic == topic and each.events), "")


def alerts(audit: AuditProcess) -> dict[str, answers.AlertRow]:
    """By topic."""
    return {each.topic: each for each in audit.get("alerts", answers.AlertsAnswer).items}


def test_a_table_that_is_never_loaded_is_not_complete(write: Write, audit: AuditProcess) -> None:
    """Nobody asks anything of a destination that never spoke of the topic, and all the rest adds
    up."""
    agent, broker, hdfs = said("unloaded").entries()
    write([agent, broker])
    wait_until(lambda: state_of(audit, "unloaded") == "complete", within=20, what="it adds up")
    write([loader_says(hdfs, failed=True, seq=0)])
    wait_until(lambda: state_of(audit, "unloaded") == "pending", within=20, what="it is shown")
    found = audit.get("topics", answers.TopicsAnswer, search="unloaded")
    (row,), (load,) = found.items, found.failing_loads
    assert row.load_fails
    assert (load.topic, load.destination, load.since) == ("unloaded", DESTINATION, BEGAN)
    assert (load.reason, load.cure) == ("1 of 1 records are dead", "raise dead_share")
    assert (
        audit.get("topics", answers.TopicsAnswer).items[0].topic == "unloaded"
    )  # before all others
    assert audit.get("loads", answers.Loads, topic="unloaded").failing_loads == [load]
    times = {"from_": BEGAN, "to": BEGAN + HOUR}
    report = audit.get("report", answers.ReportAnswer, topic="unloaded", **times)
    assert (report.state, report.topics[0].failing_loads) == ("pending", [load])
    shown = audit.get("topic", answers.TopicAnswer, topic="unloaded", step=WINDOW, **times)
    assert (shown.state, shown.failing_loads) == ("pending", [load])
    wait_until(lambda: "unloaded" in alerts(audit), within=20, what="it is raised")
    alert = alerts(audit)["unloaded"]
    assert (alert.kind, alert.resolved) == ("unloaded", -1)
    assert alert.words.endswith(": 1 of 1 records are dead. What to do: raise dead_share")
    figure = b'penstock_audit_load_failing_seconds{cluster="test",destination="' + (
        DESTINATION.encode() + b'",topic="unloaded"} '
    )
    assert figure in audit.ask("/metrics").body
    write([hdfs, loader_says(hdfs, failed=False, seq=1)])
    wait_until(lambda: state_of(audit, "unloaded") == "complete", within=20, what="it is loaded")
    assert audit.get("topics", answers.TopicsAnswer).failing_loads == []
    wait_until(lambda: alerts(audit)["unloaded"].resolved > 0, within=20, what="it is resolved")
    assert figure not in audit.ask("/metrics").body


def test_what_was_landed_before_loads_failed_stays_complete(
    write: Write, audit: AuditProcess
) -> None:
    entries = said("landed-before").entries()
    failing = loader_says(entries[-1], failed=True, seq=7)
    failing["loads"][0]["since"] = NOW
    write([*entries, failing])
    wait_until(lambda: state_of(audit, "landed-before") == "pending", within=20, what="now it is")
    times = {"from_": BEGAN, "to": BEGAN + 2 * HOUR}
    before = audit.get("report", answers.ReportAnswer, topic="landed-before", **times)
    assert (before.state, before.topics[0].failing_loads) == ("complete", [])
    write([loader_says(entries[-1], failed=False, seq=8)])
    wait_until(lambda: state_of(audit, "landed-before") == "complete", within=20, what="again")


def loader_says(hdfs: Entry, *, failed: bool, seq: int) -> Entry:
    """Of the topic's loads, by the loader that writes such entries; what a load that succeeded has
    committed comes with another entry."""
    said = {"topic": hdfs["passages"][0]["topic"], "failed": failed, "since": BEGAN}
    if failed:
        said |= {"reason": "1 of 1 records are dead", "cure": "raise dead_share"}
    journal = f"{hdfs['header']['source']}-loads"
    header = {**hdfs["header"], "source": journal, "seq": seq, "time": NOW + seq}
    return {**hdfs, "header": header, "passages": [], "loads": [said]}
