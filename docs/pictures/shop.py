"""A shop on three hosts that are this machine: `penstock up` on web-1, an agent on each other one.

A host is a UTS and a mount namespace: it has its own name, its logs are in /var/log, and what
Penstock keeps is in /srv. All of it is in one folder outside. The applications and their inputs are
those of `penstock demo`; their logs begin some hours ago.

Needs root, or user namespaces.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import pi, sin
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

import yaml

from audit.api.answers import ReportAnswer
from audit.reconciling.findings import State
from audit.reconciling.picture import TierKind
from bench.figures.processes import tree
from docs.pictures.shown import ROOT
from ground.http.client import parse_program_url
from ground.http.security import HttpSecurity, access_to
from ground.network import listening
from harness.processes.server_process import ServerProcess, free_ports, http_page
from harness.processes.waiting import wait_until
from penstock.cli.failures import Failed
from penstock.demo.applications.log_writer import Application
from penstock.demo.applications.payments import PAYMENTS
from penstock.demo.applications.shop import SHOP
from penstock.demo.applications.system import SYSTEM
from penstock.demo.samples import SAMPLES, inputs, schema_text
from penstock.directory.places import Addresses, Places, Ports
from penstock.directory.preparation import settings
from penstock.report.audit_requests import ask, verdict
from penstock.report.command import arrived
from schemas.registry_client import RegistryClient

PLACES: Final = Places(Path("/srv/penstock"))  # as web-1 sees it
PENSTOCK: Final = (sys.executable, "-m", "penstock")
AGENT_FILE: Final = "/srv/agent.yaml"
_LOAD_EVERY: Final = "10s"
_IN_A_ROW: Final = 4
_PATIENCE: Final = 120.0
_HISTORY: Final = timedelta(hours=7)
_SECONDS_BETWEEN: Final = {"shop": 4.0, "payments": 9.0, "system": 40.0}  # of two events of a host
_FILES: Final = {"shop": "access.log", "payments": "payments.log", "system": "system-1.log"}
_ROTATED: Final = {"shop": "access.log.1", "payments": "payments-1.log", "system": "system-0.log"}
_APPLICATIONS: Final = (SHOP, PAYMENTS, SYSTEM)
_LATEST: Final = 10_000  # seconds' worth of events in the last minute
_NAMESPACES: Final = ("unshare", *(() if os.geteuid() == 0 else ("--map-root-user",)))
_ENTER: Final = """
mount --bind "$2" /var/log
mount --bind "$3" /srv
mount --bind "$4" /etc/hosts
hostname "$1"
shift 4
exec "$@"
"""


class Host:
    """A machine with applications that write logs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.kept = self.folder / "srv"
        self._logs = self.folder / "log"
        self._hosts = self.folder / "hosts"
        self.written = dict.fromkeys(_FILES, 0)  # events, by application
        for sample in _FILES:
            (self._logs / sample).mkdir(parents=True)
        self.kept.mkdir()
        self._hosts.write_text(f"127.0.0.1 localhost {name}\n")

    def inside(self, *command: str) -> list[str]:
        """The command as it is run on this host."""
        places = (str(each) for each in (self._logs, self.kept, self._hosts))
        return [
            *(*_NAMESPACES, "--uts", "--mount", "sh", "-ec", _ENTER, "sh"),
            *(self.name, *places, *command),
        ]

    def penstock(self, *arguments: str) -> list[str]:
        return self.inside(*PENSTOCK, *arguments)

    def write(self, application: Application, times: Iterable[datetime], file: str = "") -> None:
        """An event for each time, at the end of the application's log or of another file."""
        name = application.name
        first = self.written[name]
        chance = Random(f"{self.name} {name} {first}")  # noqa: S311
        with self._path(application, file or _FILES[name]).open("a") as log:
            for number, at in enumerate(times, first):
                log.write(application.event(number, at, chance))
                self.written[name] = number + 1

    def _path(self, application: Application, file: str) -> Path:
        return self._logs / application.name / file


class Shop:
    """Runs from entering to leaving; leaves its folder as it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.web_1, self.web_2, self.web_3 = self.hosts = tuple(
            Host(name, folder) for name in ("web-1", "web-2", "web-3")
        )
        *ports, second, third = _ports()
        self.addresses = Addresses.of(Ports(*ports))
        self._agent_ports = {"web-2": second, "web-3": third}
        self.began = datetime.now(UTC) - _HISTORY
        self._up = ServerProcess(
            self.web_1.penstock(
                *("up", "--dir", str(PLACES.directory), "--load-every", _LOAD_EVERY),
                *("--port-base", str(ports[0])),
            ),
            output=folder / "up.txt",
            directory=ROOT,
        )
        self.agents = {
            host.name: ServerProcess(
                host.penstock("agent", "--config", AGENT_FILE),
                output=folder / f"{host.name}.txt",
                directory=ROOT,
            )
            for host in self.hosts[1:]
        }
        self._configure(Ports(*ports))

    def _configure(self, ports: Ports) -> None:
        followed = yaml.safe_dump(dict(inputs("/var/log")))
        first = self.web_1.kept / "penstock" / "inputs.d"
        agent = settings(PLACES, ports)["agent"]
        for host in self.hosts:
            folder = first if host is self.web_1 else host.kept / "inputs.d"
            folder.mkdir(parents=True)
            (folder / "shop.yaml").write_text(followed)
            if host is not self.web_1:
                own = {"data_dir": "/srv/agent", "inputs_dir": "/srv/inputs.d"}
                own_port = {"http_port": self._agent_ports[host.name]}
                text = yaml.safe_dump({**agent, **own, **own_port})
                (host.kept / Path(AGENT_FILE).name).write_text(text)

    def __enter__(self) -> Self:
        self._write_latest()
        self._up.spawn()
        try:
            registry = int(self.addresses.registry.rpartition(":")[2])
            self._until(lambda: http_page(registry, "/subjects")[0] == 200, "a registry")
            with RegistryClient(self.addresses.registry, patience_seconds=_PATIENCE) as client:
                for sample in SAMPLES:
                    if sample.typed:
                        client.register(sample.subject, schema_text(sample))
            for agent in self.agents.values():
                agent.spawn()
            self._until(lambda: "all programs run" in self._up.log(), "everything to run")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for agent in self.agents.values():
            agent.kill()
        if self._up.alive:
            os.kill(self._up.pid, signal.SIGCONT)
            self._up.terminate()

    def environment(self, host: Host) -> dict[str, str]:
        """For commands on that host."""
        agent = f"http://127.0.0.1:{self._agent_ports[host.name]}"
        return {
            "PENSTOCK_BOOTSTRAP": self.addresses.brokers,
            "PENSTOCK_REGISTRY": self.addresses.registry,
            "PENSTOCK_AUDIT": self.addresses.audit,
            "PENSTOCK_AGENT": agent,
            "PENSTOCK_BROKER_HTTP": self.addresses.broker_http,
        }

    def report(self) -> ReportAnswer | None:
        """Of all since the logs began; None while the audit does not answer."""
        begin, end = (int(each.timestamp() * 1000) for each in (self.began, datetime.now(UTC)))
        try:
            return ask(
                parse_program_url(self.addresses.audit),
                "report",
                {"from": begin, "to": end},
                ReportAnswer,
                access=access_to(HttpSecurity()),
            )
        except Failed:
            return None

    def is_complete(self) -> bool:
        """Whether every event that was written has arrived in the files, and the audit says so."""
        report = self.report()
        if report is None or verdict(report) is not State.COMPLETE:
            return False
        written = {
            name: sum(host.written[name] for host in self.hosts) for name in self.web_1.written
        }
        landed = {
            each.topic: arrived(each)
            for each in report.topics
            if each.tiers and each.tiers[-1].tier == TierKind.HDFS
        }
        return landed == written

    def until_complete(self) -> None:
        """Until several reports in a row say so: a busy machine has agents that are heard late."""
        in_a_row = 0

        def is_settled() -> bool:
            nonlocal in_a_row
            in_a_row = in_a_row + 1 if self.is_complete() else 0
            return in_a_row >= _IN_A_ROW

        self._until(is_settled, "every line to be accounted for")

    def lose_last_writes(self, application: Application, write: Callable[[], None]) -> None:
        """As by a disk that loses its last writes with the power: half of what `write` has an agent
        ship is cut off the broker's log, before a load could read it."""
        log = self.web_1.kept / "penstock" / "broker" / f"{application.name}-0"
        (segment,) = log.glob("*.log")
        before = segment.stat().st_size
        stopped = [self._up.pid, self._process("load")]  # nothing is loaded, or started again
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        write()
        self._until_quiet(segment, before)
        os.kill(self._process("broker"), signal.SIGKILL)
        os.truncate(segment, (before + segment.stat().st_size) // 2)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    def _until_quiet(self, segment: Path, before: int) -> None:
        """Until it has grown, the ledger has it, and nothing more is added."""

        def grows() -> bool:
            size = segment.stat().st_size
            time.sleep(8)
            return size == before or segment.stat().st_size > size

        self._until(lambda: not grows(), "the last lines to be shipped")

    def _process(self, program: str) -> int:
        """Of a program that `penstock up` runs."""
        for pid in tree(self._up.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"penstock" in words and words[words.index(b"penstock") + 1] == program.encode():
                return pid
        raise ProcessLookupError(f"penstock {program} does not run")

    def _write_latest(self) -> None:
        for host in self.hosts:
            for application in _APPLICATIONS:
                count = int(_LATEST / _SECONDS_BETWEEN[application.name])
                host.write(application, now_and_then(count, 60))

    def write_history(self) -> None:
        """Some hours of each log, as rotated files."""
        span = _HISTORY.total_seconds()
        for host in self.hosts:
            for application in _APPLICATIONS:
                chance = Random(f"{host.name} {application.name}")  # noqa: S311
                times, at = [], 0.0
                while at < span - 600:
                    times.append(self.began + timedelta(seconds=at))
                    pace = 1.2 + sin(at / span * pi * 3)
                    at += chance.expovariate(pace / _SECONDS_BETWEEN[application.name])
                host.write(application, times, _ROTATED[application.name])

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            if not self._up.alive:
                raise ProcessLookupError(f"penstock up has ended:\n{self._up.last_words()}")
            return condition()

        wait_until(is_so, what=what, within=_PATIENCE, every=0.5)


def now_and_then(count: int, seconds: float) -> list[datetime]:
    """So many times within the last so many seconds."""
    step = timedelta(seconds=seconds / count)
    first = datetime.now(UTC) - step * count
    return [first + step * number for number in range(count)]


def _ports() -> Sequence[int]:
    """Of a pipeline and two agents."""
    while True:
        first, *agents = free_ports(3)
        ports = Ports.beginning_at(first)
        if all(listening.is_free("127.0.0.1", port) for port in ports):
            return [*ports, *agents]
