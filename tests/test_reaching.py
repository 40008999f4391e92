"""What tests are found to start, without running them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import server_process
from harness.broker_process import BrokerProcess
from harness.server_process import ServerProcess, free_ports
from tests.reaching import reached, reaches

ROOT = Path(__file__).resolve().parents[1]
SERVER = {"harness.server_process.ServerProcess"}


def one_that_starts_it() -> None:
    ServerProcess([], output=None)  # type: ignore[arg-type]


def one_that_says_its_module() -> None:
    server_process.ServerProcess([], output=None)  # type: ignore[arg-type]


def one_that_has_others_start_it() -> None:
    def inner() -> type[BrokerProcess]:
        return BrokerProcess

    inner()


@contextmanager
def managed() -> Iterator[None]:
    one_that_starts_it()
    yield


def one_that_wraps_it() -> None:
    with managed():
        pass


class Has:
    @property
    def server(self) -> object:
        return one_that_starts_it()


class Inherits(Has):
    """Nothing of its own."""


def one_that_uses_an_object() -> None:
    Inherits()


def one_that_does_not() -> None:
    free_ports(1)
    server_process.http_page(1, "/")


def asks_for_it_by_name(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("one_that_has_others_start_it")


class _Manager:
    """Of fixtures, as pytest's."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def getfixturedefs(self, name: str, node: object) -> Any:
        return self._known.get(name)


def item(function: Any, *fixtures: Any) -> Any:
    """Of a session that has all of these as fixtures."""
    known = {
        each.__name__: [SimpleNamespace(func=each, argnames=())]
        for each in (one_that_has_others_start_it, *fixtures)
    }
    manager = _Manager(known)
    return SimpleNamespace(
        function=function,
        parent=None,
        session=SimpleNamespace(_fixturemanager=manager),
        _fixtureinfo=SimpleNamespace(name2fixturedefs=[each.__name__ for each in fixtures]),
    )


@pytest.mark.parametrize(
    "function",
    [
        one_that_starts_it,
        one_that_says_its_module,
        one_that_has_others_start_it,
        one_that_wraps_it,
        one_that_uses_an_object,
        asks_for_it_by_name,
    ],
)
def test_it_is_found(function: Any) -> None:
    assert reaches(item(function), SERVER)
    assert reaches(item(one_that_does_not, function), SERVER)


def test_what_is_not_there_is_not_found() -> None:
    found = list(reached(item(one_that_does_not)))
    assert free_ports in found
    assert not reaches(item(one_that_does_not), SERVER)


@pytest.mark.not_quick("collects all tests")
def test_of_this_project_those_are_quick_that_need_no_server_and_no_jvm() -> None:
    files = (
        "ledger/test_publishing.py",
        "penstock/report/test_audit_end_to_end.py",
        "test_hdfs.py",
    )
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--quick"]
    run = subprocess.run(
        [*command, *(f"tests/{each}" for each in (*files, "loader/commit/test_crashes.py"))],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.partition("::")[2] for line in run.stdout.splitlines() if "::" in line]
    assert "test_journals_are_spread_over_partitions" in found
    assert "test_two_loads_one_after_the_other_land_everything_once" in found
    assert "test_killed_at_every_step" not in found  # it is marked
    assert "test_all_entries_arrive_in_their_order" not in found
    assert not any("host_retired" in each or "hdfs" in each for each in found)
