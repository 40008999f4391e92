"""A test that fails shows what its servers wrote last: tried in runs of their own."""

from pathlib import Path

from tests.runner.inner_runs import run_by_our_rules as run
from tests.runner.inner_runs import runs_tests

TESTS = """
import sys

import pytest

from harness.processes.server_process import ServerProcess


class Server(ServerProcess):
    def says(self, text):
        command = "import sys; print(sys.argv[1])"
        self.command = [sys.executable, "-c", command, text]
        self.spawn()
        self.wait(within=200)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server([], output=tmp_path_factory.mktemp("first") / "server.log") as server:
        server.says("it is set up")
        yield server


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    with Server([], output=tmp_path_factory.mktemp("second") / "silent.log") as server:
        server.says("never again")
        yield server


def test_well(server, silent):
    server.says("all is well")


def test_much(server):
    server.says("\\n".join(f"line {number}" for number in range(1000)))
    assert not server


def test_many(server, tmp_path):
    for number in range(11):
        Server([], output=tmp_path / f"{number}.log").says(f"said by {number}")
    assert not server
"""


@runs_tests
def test_what_was_written_during_the_test_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS, PYTEST_ADDOPTS="-p no:randomly")
    assert "2 failed, 1 passed" in done.stdout
    assert "all is well" not in done.stdout, "it was said in a test that passed"
    assert "never again" not in done.stdout, "it said nothing while a test failed"
    assert "Last words of first0/server.log" in done.stdout
    assert "line 959\n" not in done.stdout
    assert "\nline 960\n" in done.stdout
    assert "\nline 999\n" in done.stdout
    latest_first = [done.stdout.index(f"said by {number}\n") for number in range(10, 2, -1)]
    assert latest_first == sorted(latest_first)
    assert "said by 2\n" not in done.stdout
    _, _, left = done.stdout.partition("Last words of others are left out")
    assert [f"{number}.log" in left for number in (2, 1, 0)] == [True] * 3
