"""The programs of a pipeline: their commands, dependencies, readiness and status.

They are six, or nine with a mirror and a second cluster.
"""

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from cluster.zookeeper_server.status import answers
from ground.http.client import HttpClient, HttpError, parse_program_url
from ground.http.security import HttpAccess, HttpSecurity, access_to
from penstock.cli.event_log import LogFormat
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import HOST, Addresses, MirrorPorts, Places, Ports
from penstock.up.admission import Admission


class Program(NamedTuple):
    """A program to run.

    `needs`: programs that must answer before this one is started. `uses`: programs that it can do
    without for a while. All of them stop after it.

    `keeps_open`: the supervisor holds its open files while it is down, so that it loses no line.
    It misses changes of files meanwhile, so it is restarted at once."""

    name: str
    command: tuple[str, ...]
    address: str  # where it listens, for display; empty if nowhere
    is_ready: Callable[[], bool] | None  # called in another thread; None: it has no port
    needs: frozenset[str] = frozenset()
    stop_seconds: float = 2.0  # after SIGTERM; then it is killed
    uses: frozenset[str] = frozenset()
    keeps_open: bool = False


class ProgramPhase(StrEnum):
    """The state of a program."""

    WAITING = "waiting"  # for the programs that it needs
    STARTING = "starting"
    RUNNING = "running"
    DEAD = "dead"  # until it is restarted at `retry_at`
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProgramStatus(NamedTuple):
    """The status of one program. Times are seconds since 1970."""

    name: str
    phase: ProgramPhase
    address: str  # where it listens, for display; empty if nowhere
    log: str  # the file
    since: float  # when this phase began
    pid: int = 0
    restarts: int = 0  # after deaths
    ended: str = ""  # how it last died: "exit code 1", "killed by SIGKILL"
    last_lines: tuple[str, ...] = ()  # of its log, when it died
    retry_at: float = 0.0


_ANSWER_SECONDS: Final = 2.0
# -P keeps the current folder off the path: its sub-folders have the names of packages.
_PENSTOCK: Final = (sys.executable, "-P", "-m", "penstock")


def programs(
    places: Places,
    ports: Ports,
    pipeline_access: PipelineAccess,
    admission: Admission | None,
    *,
    mirror: MirrorPorts | None = None,
    load_every: int,
    log_format: LogFormat,
) -> tuple[Program, ...]:
    """Returns the programs, in the order in which a line passes through them. If there is an
    `admission`, ZooKeeper counts as ready once it is done."""
    # Servers report their readiness without a login.
    access = access_to(HttpSecurity(tls=pipeline_access.registry_security.tls))
    programs = _Programs(places, pipeline_access.addresses, access, log_format)
    zookeeper_ready = admission.is_done if admission else partial(answers, HOST, ports.zookeeper)
    registries = frozenset({"registry", "offline-registry"} if mirror else {"registry"})
    return (
        programs.zookeeper(ports.zookeeper, zookeeper_ready),
        programs.broker("broker", programs.addresses),
        programs.registry("registry", programs.addresses, "broker"),
        programs.agent(),
        *(programs.mirrored(mirror) if mirror else ()),
        programs.loader(load_every, registries | {"audit"}),
        programs.audit(registries),
    )


class _Programs(NamedTuple):
    places: Places
    addresses: Addresses
    access: HttpAccess
    log_format: LogFormat

    def _command(self, name: str, *arguments: str) -> tuple[str, ...]:
        return (*_PENSTOCK, name, *arguments, "--log-format", self.log_format)

    def _configured(self, subcommand: str, name: str) -> tuple[str, ...]:
        return self._command(subcommand, "--config", str(self.places.config(name)))

    def zookeeper(self, port: int, is_ready: Callable[[], bool]) -> Program:
        command = self._command(
            *("zookeeper", "--data-dir", str(self.places.data("zookeeper"))),
            *("--host", HOST, "--port", str(port), "--set", "guarded=true"),
        )
        return Program("zookeeper", command, f"{HOST}:{port}", is_ready, stop_seconds=1.0)

    def broker(self, name: str, addresses: Addresses) -> Program:
        return Program(
            name,
            self._configured("broker", name),
            addresses.brokers,
            partial(_answers_ok, addresses.broker_http, "/readyz"),
            frozenset({"zookeeper"}),
        )

    def registry(self, name: str, addresses: Addresses, broker: str) -> Program:
        return Program(
            name,
            self._configured("registry", name),
            addresses.registry,
            partial(_answers_ok, addresses.registry, "/readyz", self.access),
            frozenset({broker}),
            stop_seconds=1.5,
        )

    def agent(self) -> Program:
        return Program(
            "agent",
            self._configured("agent", "agent"),
            self.addresses.agent,
            # Not /readyz: an invalid input is for the user to repair, and must not delay the start.
            partial(_answers_ok, self.addresses.agent, "/healthz"),
            # It needs no other program: lines written before brokers answer may be gone by then.
            uses=frozenset({"registry"}),
            stop_seconds=4.0,  # it drains
            keeps_open=True,
        )

    def mirrored(self, ports: MirrorPorts) -> tuple[Program, ...]:
        """Returns the mirror, and the programs of the cluster into which it copies."""
        offline = self.addresses.offline(ports)
        page = f"http://{HOST}:{ports.mirror_http}"
        mirror = Program(
            "mirror",
            self._configured("mirror", "mirror"),
            page,
            partial(_answers_ok, page, "/readyz"),
            frozenset({"broker", "offline-broker"}),
            uses=frozenset({"offline-registry"}),
        )
        return (
            mirror,
            self.broker("offline-broker", offline),
            self.registry("offline-registry", offline, "offline-broker"),
        )

    def loader(self, every_seconds: int, needs: frozenset[str]) -> Program:
        command = (*self._configured("load", "loader"), "--every", f"{every_seconds}s")
        return Program("loader", command, "", None, needs, stop_seconds=3.0)

    def audit(self, needs: frozenset[str]) -> Program:
        return Program(
            "audit",
            self._configured("audit", "audit"),
            self.addresses.audit,
            partial(_answers_ok, self.addresses.audit, "/readyz", self.access),
            needs,
            stop_seconds=1.5,
        )


def _answers_ok(url: str, path: str, access: HttpAccess | None = None) -> bool:
    """Whether this page of a program answers with 200."""
    try:
        with HttpClient(parse_program_url(url), access=access) as client:
            answer = client.ask("GET", path, within=_ANSWER_SECONDS, whole=False)
            return answer.status == HTTPStatus.OK
    except HttpError:
        return False
