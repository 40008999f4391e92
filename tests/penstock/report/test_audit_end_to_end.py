"""What operators do, from the fault to the verdict that accepts it: broker, registry, audit and
commands are real, what the tiers have said is made up."""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.publishing import Entry, write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.pipeline_said import Said
from tests.penstock.running import Ended, penstock

HOUR: Final = 3_600_000

Write = Callable[[list[Entry]], None]


@pytest.fixture
def write(running_broker: BrokerProcess, running_registry: RegistryProcess) -> Write:
    def write(entries: list[Entry]) -> None:
        with (
            Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers,
            RegistryClient(running_registry.url) as registry,
        ):
            brokers.topic("_audit", create=True)
            write_entries(brokers, registry, entries, timestamp=int(time.time() * 1000))

    return write


def test_a_fault_is_shown_and_accepted_and_a_host_retired(
    tmp_path: Path,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    new_topic: str,
    write: Write,
) -> None:
    now = int(time.time() * 1000)  # not when all tests were collected, which may be an hour ago
    began = (now - 3 * HOUR) // HOUR * HOUR
    host = f"host-of-{new_topic}"
    missing = Said(new_topic, host, "/var/log/a.log", began, missing=(120, 132), until=now + HOUR)
    silent = Said(f"{new_topic}-b", f"{host}-b", "/var/log/b.log", began, until=began + HOUR)
    write([*missing.entries(), *silent.entries()])
    where = {"brokers": running_broker.bootstrap, "registry": running_registry.url}
    with AuditProcess(tmp_path, settings={"grace": 0}, **where) as audit:
        config = ("--config", str(audit.config), "--reason", "a test")

        def reported(topic: str) -> Ended:
            times = ("--from", time.strftime("%Y-%m-%dT%H:%M", time.gmtime(began / 1000)))
            return penstock("report", topic, "--audit", audit.url, *times)

        def until(topic: str, code: int, what: str) -> Ended:
            """Others write to the ledger, too: what was written last need not be read yet."""
            wait_until(lambda: reported(topic).returncode == code, within=60, what=what)
            return reported(topic)

        faulty = until(new_topic, 1, "the fault is known")
        assert (faulty.returncode, faulty.stderr) == (1, "")
        lines = [line for line in faulty.stdout.splitlines() if not line.startswith("i ")]
        *_, fault, cure = lines
        assert fault == (
            f"✗ {host}: /var/log/a.log, bytes 1,200 to 1,320 (events 120 to 131) are not at the "
            f"brokers ({new_topic}-0, offsets 120 to 131) [source source-of-{new_topic}]"
        )
        command = shlex.split(cure.partition(": ")[2].replace("REASON", "'a test'"))
        assert command[:3] == ["penstock", "audit", "accept"]
        accepted = penstock(*command[1:])
        assert (accepted.returncode, accepted.stderr) == (0, "")
        assert "(accepted: a test (" in until(new_topic, 0, "it is accepted").stdout

        pending = until(silent.topic, 2, "somebody is waited for")
        assert pending.returncode == 2
        assert f"… waits for an agent: {silent.host}: the agent is done up to" in pending.stdout
        retired = penstock("audit", "retire", silent.host, "--audit", audit.url, *config)
        assert (retired.returncode, retired.stderr) == (0, "")
        until(silent.topic, 0, "it is retired")
