"""ZooKeeper, broker and registry by the units of deploy/, under a real systemd: what they may not
do they do not need. (How a unit is judged: tests/deploy. The agent's: tests/system/agent.)
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hosts.systemd_process import Systemd, why_no_systemd
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.docs.pages import ROOT

ZOOKEEPER = "penstock-zookeeper.service"
BROKER = "penstock-broker.service"
REGISTRY = "penstock-registry.service"
UNITS = (ZOOKEEPER, BROKER, REGISTRY)
WITHIN = 180.0  # a ZooKeeper that is too slow is started again after half a minute
SECRET = "correct-horse-battery-staple"


class Servers:
    """All three, with what a test must change of their units: who and where they are."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        zookeeper = f"127.0.0.1:{port}/penstock"
        secret = {"zookeeper_secret_file": "${CREDENTIALS_DIRECTORY}/zookeeper-secret"}
        self.registry = RegistryProcess(
            directory / "registry", brokers="127.0.0.1:1", zookeeper=zookeeper, settings=secret
        )
        self.broker = BrokerProcess(
            directory / "broker",
            zookeeper=zookeeper,
            settings={"registry": self.registry.url, "ledger_interval": 0.5, **secret},
        )
        written = self.registry.config.read_text()
        self.registry.config.write_text(
            written.replace("127.0.0.1:1\n", f"{self.broker.bootstrap}\n")
        )
        kept = directory / "kept-secret"
        kept.write_text(SECRET)
        kept.chmod(0o600)
        at = ("zookeeper", "--data-dir", str(directory / "zookeeper"), "--port", str(port))
        commands = {
            ZOOKEEPER: ([sys.executable, "-m", "penstock", *at], directory / "zookeeper.log"),
            BROKER: (self.broker.process.command, self.broker.process.output),
            REGISTRY: (self.registry.process.command, self.registry.process.output),
        }
        self.logs = {unit: log for unit, (_, log) in commands.items()}
        units = {}
        for unit, (command, log) in commands.items():
            units[unit] = (ROOT / "deploy" / "systemd" / unit).read_text(encoding="utf-8")
            units[f"{unit}.d/test.conf"] = drop_in(" ".join(command), directory, log)
        self.systemd = Systemd(directory / "systemd", units)

    def until_ready(self) -> None:
        wait_until(self.broker.ready, within=WITHIN, what="the broker is ready")
        wait_until(self.registry.ready, within=WITHIN, what="the registry is ready")

    def said(self, unit: str) -> str:
        return self.logs[unit].read_text(errors="replace")


def drop_in(command: str, directory: Path, log: Path) -> str:
    """This interpreter may be in somebody's home, or in /tmp, as the test's files are. Of control
    groups that systemd has here for itself alone, Java's own view of them does not hold."""
    return f"""
[Service]
ExecStart=
ExecStart={command}
Environment=PYTHONPATH={ROOT}
User=root
Group=root
StateDirectory=
WorkingDirectory={ROOT}
Environment=JAVA_TOOL_OPTIONS=-XX:-UseContainerSupport
ProtectHome=read-only
BindReadOnlyPaths={ROOT} {sys.prefix}
BindPaths={directory}
LoadCredential=zookeeper-secret:{directory}/kept-secret
WatchdogSec=15
StandardOutput=append:{log}
StandardError=inherit
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    if why := why_no_systemd():
        pytest.skip(f"systemd cannot be had: {why}")
    servers = Servers(tmp_path)
    with servers.systemd:
        yield servers


def test_zookeeper_broker_and_registry_by_their_units(servers: Servers) -> None:
    systemd = servers.systemd
    # In no order: none waits for another, and who misses one is started again.
    systemd("start", "--no-block", *UNITS)
    servers.until_ready()
    assert systemd.show(BROKER, "LimitNOFILE") == "131072"
    assert SECRET not in servers.said(BROKER) + servers.said(REGISTRY)

    # The process that counts runs at a low priority, and may say so.
    low = min(os.nice(0) + 10, 19)
    wait_until(lambda: low in priorities(systemd, BROKER), within=WITHIN, what="it counts")
    assert "PermissionError" not in servers.said(BROKER)

    registered = servers.registry.ask("POST", "/subjects/a-value/versions", {"schema": '"int"'})
    assert registered.status == 200

    # Who is killed is started again, and who hangs.
    for signal in ("KILL", "STOP"):
        before = {unit: systemd.main_pid(unit) for unit in UNITS}
        for unit in UNITS:
            systemd("kill", "--kill-whom=main", f"--signal={signal}", unit)
        wait_until(
            lambda before=before: all(
                systemd.main_pid(each) not in {0, before[each]} for each in UNITS
            ),
            within=WITHIN,
            what="all are started again",
        )
        servers.until_ready()
    assert servers.registry.ask("GET", "/subjects").body == ["a-value"]

    systemd("stop", *reversed(UNITS))
    for unit in UNITS:
        assert systemd.show(unit, "Result") == "success"
        assert systemd.show(unit, "ExecMainStatus") == "0"
    assert "stopped" in servers.said(BROKER).splitlines()[-1]

    # Started means that it serves.
    systemd("start", ZOOKEEPER)
    assert systemd.show(ZOOKEEPER, "StatusText") == "standalone"
    systemd("start", BROKER)
    assert servers.broker.ready()
    systemd("start", REGISTRY)
    assert servers.registry.ready()


def priorities(systemd: Systemd, unit: str) -> set[int]:
    """Of all processes that a unit has."""
    main = systemd.main_pid(unit)
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if main and int(fields[1]) == main:
            found.add(int(fields[16]))
    return found
