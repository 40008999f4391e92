"""The six programs, and how each is run and asked whether it answers."""

import sys
from functools import partial
from http import HTTPStatus
from typing import Final

from cluster.zookeeper import answers
from ground.http_client import HttpClient, HttpError, HttpUrl
from penstock.cli.event_log import LogFormat
from penstock.directory.places import HOST, Addresses, Places, Ports
from penstock.up.program import Program

_ANSWER_SECONDS: Final = 2.0
# Not the folder in which it runs, whose sub-folders are called as packages are.
_PENSTOCK: Final = (sys.executable, "-P", "-m", "penstock")


def programs(
    places: Places, ports: Ports, *, loads_every: str, log_format: LogFormat
) -> tuple[Program, ...]:
    """In the order in which people think of them: a line goes from top to bottom."""
    addresses = Addresses.of(ports)

    def command(name: str, *arguments: str) -> tuple[str, ...]:
        return (*_PENSTOCK, name, *arguments, "--log-format", log_format)

    def configured(name: str, program: str) -> tuple[str, ...]:
        return command(name, "--config", str(places.config(program)))

    return (
        Program(
            "zookeeper",
            command(
                *("zookeeper", "--data-dir", str(places.data("zookeeper"))),
                *("--host", HOST, "--port", str(ports.zookeeper)),
            ),
            f"{HOST}:{ports.zookeeper}",
            partial(answers, HOST, ports.zookeeper),
            stop_seconds=1.0,
        ),
        Program(
            "broker",
            configured("broker", "broker"),
            addresses.brokers,
            partial(_says_yes, ports.broker_http, "/readyz"),
            frozenset({"zookeeper"}),
        ),
        Program(
            "registry",
            configured("registry", "registry"),
            addresses.registry,
            partial(_says_yes, ports.registry, "/readyz"),
            frozenset({"broker"}),
            stop_seconds=1.5,
        ),
        Program(
            "agent",
            configured("agent", "agent"),
            addresses.agent,
            # Not /readyz: an input that is wrong is the user's to mend, and keeps nobody waiting.
            partial(_says_yes, ports.agent_http, "/healthz"),
            # It waits for nobody: what is written before brokers answer may be gone by then.
            uses=frozenset({"registry"}),
            stop_seconds=4.0,  # it drains
            keeps_open=True,
        ),
        Program(
            "loader",
            (*configured("load", "loader"), "--every", loads_every),
            "",
            None,  # it serves nobody
            frozenset({"registry", "audit"}),
            stop_seconds=3.0,
        ),
        Program(
            "audit",
            configured("audit", "audit"),
            addresses.audit,
            partial(_says_yes, ports.audit, "/readyz"),
            frozenset({"registry"}),
            stop_seconds=1.5,
        ),
    )


def _says_yes(port: int, path: str) -> bool:
    """Whether this page of a program's says that all is well."""
    try:
        with HttpClient(HttpUrl("http", HOST, port)) as client:
            answer = client.ask("GET", path, within=_ANSWER_SECONDS, whole=False)
            return answer.status == HTTPStatus.OK
    except HttpError:
        return False
