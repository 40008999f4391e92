"""An agent of a bundle, in a bare system, ships lines over TLS to a broker of this machine."""

import json
import os
import re
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import yaml

from harness.penstock.registry import RegistryProcess
from harness.penstock.secured_broker import USERS, SecuredBroker
from harness.processes.server_process import ServerProcess, free_ports, http_page
from harness.processes.waiting import wait_until
from tests.bundle.bare_systems import BareSystem

_LINES: Final = 1000
_WITHIN: Final = 900.0  # an emulated processor is slow
_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_PROGRAM: Final = "/opt/penstock/bin/penstock"


class Servers:
    """A broker with locks, and a registry beside it: `with Servers(directory, zookeeper)`."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.broker = SecuredBroker(directory / "broker", zookeeper=zookeeper)
        self.security = directory / "security.yaml"
        told = self.told(str(self.broker.authority.ca), str(directory / "broker/alice.password"))
        self.security.write_text(yaml.safe_dump(told))
        self.registry = RegistryProcess(
            directory / "registry",
            brokers=f"127.0.0.1:{self.broker.locked}",
            settings={"security": told},
        )
        self._running = ExitStack()

    def told(self, ca: str, password_file: str) -> dict[str, object]:
        """How a client gets in, with the files where it sees them."""
        login = {"mechanism": "SCRAM-SHA-512", "user": "alice", "password_file": password_file}
        return {"tls": {"ca": ca}, "login": login}

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.enter_context(self.broker)
            started.enter_context(self.registry)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def lines_of(self, topic: str) -> list[str]:
        """What stands in it now, as its events say."""
        command = ["consume", topic, "--from", "beginning", "--to-end", "--events"]
        at = ["--bootstrap", f"127.0.0.1:{self.broker.locked}", "--registry", self.registry.url]
        ended = subprocess.run(
            [sys.executable, "-m", "penstock", *command, *at, "--security", str(self.security)],
            capture_output=True,
            text=True,
            check=False,
            cwd=_REPOSITORY,
            timeout=120,
        )
        if ended.returncode:
            return []
        found = (json.loads(line) for line in ended.stdout.splitlines())
        return [str(each["message"]) for each in found]


def unpack(system: BareSystem, archive: Path) -> None:
    release = system.path_of("/opt/penstock/releases/tried")
    release.mkdir(parents=True)
    command = ["tar", "-xzf", str(archive), "-C", str(release), "--strip-components=1"]
    subprocess.run([*command, "--no-same-owner"], check=True)
    system.path_of("/opt/penstock/current").symlink_to("releases/tried")
    system.path_of("/opt/penstock/bin").symlink_to("current/bin")


def ships(system: BareSystem, servers: Servers) -> str:
    """What came of the installed agent. Raises AssertionError if it is not as it should be."""
    assert system.run("/bin/sh", "-c", "command -v python3 python").returncode != 0
    release = system.path_of(_PROGRAM).resolve().parents[1]
    topic = f"lines-{uuid.uuid4().hex[:8]}"
    (port,) = free_ports(1)
    config = _configure(system, servers, topic, port)
    checked = system.run(_PROGRAM, "check-config", "agent", config)
    assert checked.returncode == 0, f"check-config: {checked.stdout}{checked.stderr}"
    log = system.path_of("/var/log/app.log")
    written = [f"line {number} of this host" for number in range(_LINES)]
    log.write_text("".join(f"{each}\n" for each in written[: _LINES // 2]))
    agent = ServerProcess(
        system.inside(_PROGRAM, "agent", "--config", config),
        output=system.directory.with_name(f"{system.directory.name}.agent.log"),
    )
    agent.spawn()
    try:
        wait_until(
            lambda: http_page(port, "/readyz")[0] == 200,
            within=_WITHIN,
            what=f"the agent is ready: {agent.output.read_text(errors='replace')[-2000:]}",
        )
        with log.open("a") as file:
            file.write("".join(f"{each}\n" for each in written[_LINES // 2 :]))
        wait_until(
            lambda: len(servers.lines_of(topic)) >= _LINES,
            within=_WITHIN,
            what="all lines are there",
        )
        assert servers.lines_of(topic) == written
        assert "penstock_agent" in http_page(port, "/metrics")[1]
        # An emulated program has qemu's code in its memory, and none that is marked as its own.
        foreign = set() if system.emulated else _foreign_libraries(str(release))
        assert not foreign, f"libraries of the host: {sorted(foreign)[:5]}"
    finally:
        agent.kill()
    return f"{_LINES} lines over TLS, each once"


def _configure(system: BareSystem, servers: Servers, topic: str, port: int) -> str:
    """Returns where it is, seen from inside."""
    folder = system.path_of("/etc/penstock")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.pem").write_bytes(servers.broker.authority.ca.read_bytes())
    (folder / "password").write_text(USERS["alice"] + "\n")
    data = system.path_of("/var/lib/penstock/agent")
    data.mkdir(parents=True, exist_ok=True)
    told = {
        "cluster": "test",
        "host": system.directory.name,
        "brokers": [f"127.0.0.1:{servers.broker.locked}"],
        "security": servers.told("/etc/penstock/ca.pem", "/etc/penstock/password"),
        "registry": servers.registry.url,
        "data_dir": "/var/lib/penstock/agent",
        "http_port": port,
        "inputs": [{"paths": ["/var/log/app.log"], "topic": topic}],
        "scan_interval": 0.25,
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(told))
    for path in (folder / "password", data):
        os.chown(path, system.user, system.user)
        path.chmod(0o700 if path.is_dir() else 0o600)
    return "/etc/penstock/agent.yaml"


def _foreign_libraries(release: str) -> set[str]:
    """Files with code in the memory of the processes of this release that are not of it."""
    found: set[str] = set()
    seen = False
    for process in Path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "maps").read_text()
        except OSError:
            continue
        if f"{release}/lib/python" in maps:
            seen = True
            mapped = re.findall(r"r-xp .* (/.*)$", maps, re.MULTILINE)
            found |= {each for each in mapped if not each.startswith(release)}
    assert seen, "no process of this release runs"
    return found
