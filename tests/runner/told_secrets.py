"""No secret of a test is told: not in a log, an output, a command line, or Spark's plans.

All secrets are made so that they are known wherever they are found
(harness/logins/made_secrets.py). Looked at are

    the output of every server that tests have started, and all logs below their directories
    Spark's event logs, which hold its plans
    what each test has said, and what was logged while it ran
    the command of every process that a test starts itself, and those of processes that run when a
    test ends

What was found fails the run when all is over, with file and line.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness.logins.made_secrets import is_told, told
from harness.processes import server_process
from tests.runner.session_mark import SESSION, processes_with

# The only way to give these a password. Theirs they tell; ours are none of them.
FOREIGN: Final = ("kafka.tools.StorageTool",)
_LOOK_EVERY_S: Final = 10.0
_NAMES: Final = {"stdout", "stderr"}  # of Spark's executors
_SEGMENT: Final = re.compile(r"\d{20}\.log")  # of a topic: what clients have sent
EVENTS: Final = "spark-events"
_LARGEST: Final = 256 * 1024 * 1024


class Told:
    """What was found, and when commands were looked at last."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}
        self._looked = 0.0
        self._is_due = False

    def by(self, where: str, said: bytes) -> None:
        self.found.update(dict.fromkeys(f"{where}:{each}" for each in told(said)))

    def by_command(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python tells of each process that it starts."""
        if event == "subprocess.Popen":
            self._is_due = True
            command = arguments[1]
            if isinstance(command, list | tuple):
                command = " ".join(os.fsdecode(each) for each in command)
            if isinstance(command, str):
                self._by_line(f"the command of {_this_test()}", command)

    def by_processes(self) -> None:
        """After something was started, and now and then: of children of children nobody is
        told."""
        if not self._is_due and time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked, self._is_due = time.monotonic(), False
        for _, command in processes_with(os.environ.get(SESSION, "")):
            self._by_line(f"a process during {_this_test()}", command)

    def _by_line(self, where: str, command: str) -> None:
        if is_told(command) and not any(each in command for each in FOREIGN):
            self.found[f"{where}: {command[:200]}"] = None

    def by_files(self, directory: Path) -> None:
        for path in sorted({*server_process.OUTPUTS, *_logs(directory)}):
            if path.is_file() and path.stat().st_size <= _LARGEST:
                self.by(str(path), path.read_bytes())


TOLD: Final = pytest.StashKey[Told]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = Told()


@pytest.fixture(autouse=True, scope="session")
def no_secret_is_told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """It is set up first, so that all has been said when it looks."""
    watch = request.config.stash[TOLD]
    _listen(watch.by_command)
    yield
    watch.by_files(tmp_path_factory.getbasetemp())
    assert not watch.found, "secrets were told:\n" + "\n".join(watch.found)


def _listen(hear: Callable[[str, tuple[Any, ...]], None]) -> None:
    sys.addaudithook(hear)  # for good: nothing takes it away


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    for name, text in report.sections:
        item.config.stash[TOLD].by(f"{item.nodeid}, {name}", text.encode(errors="replace"))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[TOLD].by_processes()


def _logs(directory: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(directory):
        is_event = EVENTS in Path(folder).parts
        for name in names:
            is_log = name in _NAMES or name.endswith((".log", ".out", ".err"))
            if is_event or (is_log and not _SEGMENT.fullmatch(name)):
                yield Path(folder, name)


def _this_test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "no test")
