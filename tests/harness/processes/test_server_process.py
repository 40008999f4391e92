"""Servers that serve together: where one ends, all do, and it is said why."""

import sys
import time
from pathlib import Path

import pytest

from harness.processes.server_process import (
    RunningServer,
    RunningServers,
    ServerFailed,
    ServerProcess,
)
from harness.processes.waiting import wait_until

_SERVES = "import time; print('serves', flush=True); time.sleep(600)"
_FAILS = "print('no disk left'); raise SystemExit(3)"


class _Server(RunningServer):
    def __init__(self, directory: Path, name: str, program: str) -> None:
        command = [sys.executable, "-c", program]
        self.process = ServerProcess(command, output=directory / f"{name}.log")

    def ready(self) -> bool:
        return "serves" in self.log()


class _Servers(RunningServers):
    def __init__(self, directory: Path, **programs: str) -> None:
        self.servers = [_Server(directory, *each) for each in programs.items()]


def test_all_serve_and_all_end(tmp_path: Path) -> None:
    with _Servers(tmp_path, one=_SERVES, other=_SERVES) as running:
        assert [each.ready() for each in running.servers] == [True, True]
    assert [each.process.alive for each in running.servers] == [False, False]


def test_one_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    running = _Servers(tmp_path, one=_SERVES, other=_FAILS)
    with pytest.raises(ServerFailed, match=r"other\.log: ended with 3\nno disk left"):
        running.__enter__()
    assert [each.process.alive for each in running.servers] == [False, False]


def test_who_waits_long_looks_seldom() -> None:
    looked = []
    began = time.monotonic()

    def is_over() -> bool:
        looked.append(time.monotonic() - began)
        return looked[-1] > 1.5

    wait_until(is_over, within=60, what="it is over")
    assert looked[0] < 1
    assert 2 <= len(looked) <= 40, "75 if it looked as often as in the beginning"
