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
    """`needs`: programs that must answer before this one is started; `uses`: programs that it can
    do without for a while. All of them are stopped only after it.

    `keeps_open`: its open files are kept while it is down. It loses no line then, but sees no
    change either, so it is restarted at once, with its files."""

    name: str
    command: tuple[str, ...]
    address: str  # where it listens, for display; empty if nowhere
    is_ready: Callable[[], bool] | None  # called in another thread; None: it has no port
    needs: frozenset[str] = frozenset()
    stop_seconds: float = 2.0  # after SIGTERM; then it is killed
    uses: frozenset[str] = frozenset()
    keeps_open: bool = False


class ProgramPhase(StrEnum):
    """What a program is doing."""

    WAITING = "waiting"  # for the programs that it needs
    STARTING = "starting"
    RUNNING = "running"
    DEAD = "dead"  # and started again at `retry_at`
    STOPPING = "stopping"
    STOPPED = "stopped"


class ProgramStatus(NamedTuple):
    """One program. Times are seconds since 1970."""

    name: str
    phase: ProgramPhase
    address: str  # where it listens, for display; empty if nowhere
    log: str  # the file
    since: float  # when this phase began
    pid: int = 0
    restarts: int = 0  # after deaths
    ended: str = ""  # how it last died, in words: exit code 1, killed by SIGKILL
    last_lines: tuple[str, ...] = ()  # of its log, when it died
    retry_at: float = 0.0


_ANSWER_SECONDS: Final = 2.0
# Not the folder in which it runs, whose sub-folders are called as packages are.
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
    """The programs, in the order in which a line passes them. ZooKeeper counts as ready when the
    `admission` is done, if there is one."""
    addresses = pipeline_access.addresses
    # Whether a server is ready it says to everybody.
    access = access_to(HttpSecurity(tls=pipeline_access.registry_security.tls))

    def command(name: str, *arguments: str) -> tuple[str, ...]:
        return (*_PENSTOCK, name, *arguments, "--log-format", log_format)

    def configured(name: str, program: str) -> tuple[str, ...]:
        return command(name, "--config", str(places.config(program)))

    def broker(name: str, at: Addresses) -> Program:
        return Program(
            name,
            configured("broker", name),
            at.brokers,
            partial(_answers_ok, at.broker_http, "/readyz"),
            frozenset({"zookeeper"}),
        )

    def registry(name: str, at: Addresses, broker: str) -> Program:
        return Program(
            name,
            configured("registry", name),
            at.registry,
            partial(_answers_ok, at.registry, "/readyz", access),
            frozenset({broker}),
            stop_seconds=1.5,
        )

    copied: tuple[Program, ...] = ()
    registries = frozenset({"registry"})
    if mirror:
        offline = addresses.offline(mirror)
        page = f"http://{HOST}:{mirror.mirror_http}"
        copied = (
            Program(
                "mirror",
                configured("mirror", "mirror"),
                page,
                partial(_answers_ok, page, "/readyz"),
                frozenset({"broker", "offline-broker"}),
                uses=frozenset({"offline-registry"}),
            ),
            broker("offline-broker", offline),
            registry("offline-registry", offline, "offline-broker"),
        )
        registries |= {"offline-registry"}
    return (
        Program(
            "zookeeper",
            command(
                *("zookeeper", "--data-dir", str(places.data("zookeeper"))),
                *("--host", HOST, "--port", str(ports.zookeeper), "--set", "guarded=true"),
            ),
            f"{HOST}:{ports.zookeeper}",
            admission.is_done if admission else partial(answers, HOST, ports.zookeeper),
            stop_seconds=1.0,
        ),
        broker("broker", addresses),
        registry("registry", addresses, "broker"),
        Program(
            "agent",
            configured("agent", "agent"),
            addresses.agent,
            # Not /readyz: an input that is wrong is the user's to mend, and keeps nobody waiting.
            partial(_answers_ok, addresses.agent, "/healthz"),
            # It waits for nobody: what is written before brokers answer may be gone by then.
            uses=frozenset({"registry"}),
            stop_seconds=4.0,  # it drains
            keeps_open=True,
        ),
        *copied,
        Program(
            "loader",
            (*configured("load", "loader"), "--every", f"{load_every}s"),
            "",
            None,  # it has no port
            registries | {"audit"},
            stop_seconds=3.0,
        ),
        Program(
            "audit",
            configured("audit", "audit"),
            addresses.audit,
            partial(_answers_ok, addresses.audit, "/readyz", access),
            registries,
            stop_seconds=1.5,
        ),
    )


def _answers_ok(url: str, path: str, access: HttpAccess | None = None) -> bool:
    """Whether this page of a program answers with 200."""
    try:
        with HttpClient(parse_program_url(url), access=access) as client:
            answer = client.ask("GET", path, within=_ANSWER_SECONDS, whole=False)
            return answer.status == HTTPStatus.OK
    except HttpError:
        return False
