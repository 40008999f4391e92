"""A pipeline by `penstock up`, and the one agent of it that is restarted.

The checkout is any: its `.venv/bin/penstock` is run, and nothing of it is imported. Brokers,
registry and audit run for a whole campaign. The loader is frozen before the first topic exists, so
topics are judged up to the brokers, and a verdict waits for no load.

    UpAgent     the agent of `penstock up`, whose open files `penstock up` keeps
    UnitAgent   an agent by the shipped unit, under a systemd of its own, which keeps them
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import yaml

from ground.network import listening
from harness.hosts.systemd_process import Systemd
from harness.processes.frozen_processes import freeze
from harness.processes.server_process import ServerProcess, free_ports, http_page
from harness.processes.waiting import wait_until
from penstock.directory.places import Addresses, Places, Ports
from tests.campaigns.restarts.script import Signal

START: Final = 240.0
AGENT_UNIT: Final = "penstock-agent.service"
_READY: Final = re.compile(r"^(\S+) INFO \S+ agent ready\b", re.MULTILINE)
# What was found at a look: a file that is new, gone or renamed, a time in which nobody looked.
_LOOKED: Final = re.compile(r"^(\S+) \S+ agent\.following ", re.MULTILINE)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Site:
    """`with Site(directory, checkout) as site`: everything of `penstock up`."""

    def __init__(self, directory: Path, checkout: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.checkout = checkout
        self.logs = directory / "logs"  # that the agent follows
        self.places = Places(directory / "up")
        self.ports = Ports.beginning_at(_free_base())
        self.addresses = Addresses.of(self.ports)
        self.process = ServerProcess(
            [
                *(str(checkout / ".venv/bin/penstock"), "up"),
                *("--dir", str(self.places.directory), "--port-base", str(self.ports.zookeeper)),
            ],
            output=directory / "up.log",
            directory=directory,
        )

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of `penstock`, run to its end."""
        return subprocess.run(
            [str(self.checkout / ".venv/bin/penstock"), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.directory,
        )

    def report(self, begin: float, end: float) -> dict[str, Any]:
        """What `penstock report --json` says of each topic, by name; empty if it has no answer."""
        times = ("--from", _utc(begin), "--to", _utc(end))
        said = self.command("report", "--json", "--audit", self.addresses.audit, *times)
        try:
            answer = json.loads(said.stdout)
        except ValueError:
            return {}
        return {topic["topic"]: topic for topic in answer["topics"]}

    def delete_topics(self, names: list[str]) -> None:
        """They have been judged: no later report has them."""
        said = self.command(
            "topics", "delete", *names, "--yes", "--bootstrap", self.addresses.brokers
        )
        assert said.returncode == 0, said.stderr

    def __enter__(self) -> Self:
        try:
            self.process.spawn()
            self.process.wait_ready(lambda: "all programs run" in self.process.log(), within=START)
            self._loader = _child(self.process.pid, self.places.log("loader"))
            freeze(self._loader)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.process.alive:
                with suppress(ProcessLookupError):
                    os.kill(self._loader, signal.SIGCONT)
                self.process.terminate(within=60)
        finally:
            self.process.kill()


class Agent:
    """The agent of a site. Its supervisor, whose child it is, starts it again whenever it ended."""

    def __init__(self, log: Path, inputs: Path, http_port: int) -> None:
        self.log = log
        self.supervisor = 0
        self._inputs = inputs
        self._http_port = http_port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It ends with its site."""

    def pid(self) -> int:
        """Of the agent that runs; 0 if none does."""
        return _child(self.supervisor, self.log)

    def end(self, how: Signal) -> None:
        """Sends its process the signal with which it ends."""
        os.kill(self.pid(), signal.SIGKILL if how is Signal.KILL else signal.SIGTERM)

    def follow(self, name: str, inputs: list[dict[str, object]]) -> None:
        path = self._inputs / f"{name}.yaml"
        made = path.with_suffix(".new")
        made.write_text(yaml.safe_dump({"inputs": inputs}))
        made.rename(path)

    def unfollow(self, name: str) -> None:
        (self._inputs / f"{name}.yaml").unlink()

    def status(self) -> dict[str, Any]:
        """What `/status` says; nothing while nobody answers."""
        code, body = http_page(self._http_port, "/status")
        return json.loads(body) if code == 200 else {}

    def log_size(self) -> int:
        return self.log.stat().st_size

    def log_since(self, size: int) -> str:
        """What it has logged since the file had this size. `penstock up` begins a new file at
        16 MiB, and keeps the old one as `.1`."""
        said = self.log.read_bytes()
        if len(said) < size:
            said = self.log.with_name(f"{self.log.name}.1").read_bytes() + said
        return said[size:].decode(errors="replace")

    def ready(self, size: int, began: float) -> float:
        """When the one that began then said that it was ready: seconds since 1970; 0: not yet.
        `size` is the log's before."""
        return next((at for at in _times(_READY, self.log_since(size)) if at > began), 0.0)

    def first_look(self, size: int, began: float) -> float:
        """When it first logged what it found at a look; 0 if it has not."""
        return next((at for at in _times(_LOOKED, self.log_since(size)) if at > began), 0.0)


class UpAgent(Agent):
    """The agent of `penstock up`."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.places.log("agent"), site.places.inputs, site.ports.agent_http)
        self.supervisor = site.process.pid


class UnitAgent(Agent):
    """An agent by deploy/systemd/penstock-agent.service. Its user, its folders and the path of its
    command are this machine's; all else is as shipped."""

    def __init__(self, site: Site) -> None:
        directory = site.directory / "unit"
        inputs = directory / "inputs.d"
        inputs.mkdir(parents=True)
        (directory / "data").mkdir()
        (port,) = free_ports(1)
        log = directory / "agent.log"
        super().__init__(log, inputs, port)
        config = directory / "agent.yaml"
        settings = yaml.safe_load(site.places.config("agent").read_text())
        changes = {"inputs_dir": str(inputs), "data_dir": str(directory / "data")}
        config.write_text(
            yaml.safe_dump({**settings, **changes, "http_port": port, "host": "unit"})
        )
        unit = site.checkout / "deploy" / "systemd" / AGENT_UNIT
        command = f"{site.checkout}/.venv/bin/penstock agent --config {config}"
        drop_in = f"""
[Service]
ExecStart=
ExecStart={command}
User=root
Group=root
StateDirectory=
WorkingDirectory={directory}
ReadWritePaths={directory}
StandardOutput=append:{log}
StandardError=inherit
"""
        units = {AGENT_UNIT: unit.read_text(), f"{AGENT_UNIT}.d/test.conf": drop_in}
        self._systemd = Systemd(directory / "systemd", units)

    def end(self, how: Signal) -> None:
        if how is Signal.RESTART:
            self._systemd("restart", "--no-block", AGENT_UNIT)
        else:
            super().end(how)

    def __enter__(self) -> Self:
        self._systemd.__enter__()
        try:
            self._systemd("start", AGENT_UNIT)
            self.supervisor = _parent(self._systemd.main_pid(AGENT_UNIT))
        except BaseException:
            self._systemd.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._systemd("stop", AGENT_UNIT, check=False)
        self._systemd.__exit__(None, None, None)


AGENTS: Final[dict[str, Callable[[Site], Agent]]] = {"up": UpAgent, "systemd": UnitAgent}


def _times(line: re.Pattern[str], log: str) -> Iterator[float]:
    return (datetime.fromisoformat(said[1]).timestamp() for said in line.finditer(log))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, whoever reaps it."""
    return _fields(pid)[:1] in ([], ["Z"], ["X"])


def started(pid: int) -> float:
    """When a process was started, in seconds since 1970; to 10 ms."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    fields = _fields(pid)
    return time.time() - (uptime - int(fields[19]) / _TICKS) if fields else 0.0


def _fields(pid: int) -> list[str]:
    """Those of /proc/PID/stat behind the name, the state first."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _child(supervisor: int, log: Path) -> int:
    """The child whose stderr is this log; 0 if there is none that runs."""
    try:
        tasks = list(Path(f"/proc/{supervisor}/task").glob("*/children"))
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for pid in children:
        try:
            if Path(f"/proc/{pid}/fd/2").readlink() == log and not is_gone(pid):
                return pid
        except OSError:
            continue  # it is being started, or has ended
    return 0


def _free_base() -> int:
    """The first of as many free ports in a row as `penstock up` has."""
    base = 0

    def is_found() -> bool:
        nonlocal base
        (base,) = free_ports(1)
        return all(listening.is_free("127.0.0.1", port) for port in Ports.beginning_at(base))

    wait_until(is_found, within=START, what="six free ports in a row", every=0)
    return base


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
