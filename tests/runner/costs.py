"""`--costs 40`: the files whose tests cost most, in seconds of a processor, when a run is over.

What `--durations` says of tests that run side by side says most of their neighbours. Here counts
what a test's process has used with all that was started by it, servers and JVMs, living or ended. A
file has what its first test found until its last one is over: a fixture of the whole session is
paid by those who use it.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from typing import Final

import pytest

from bench.figures.processes import cpu_seconds_with_ended

_OPTION: Final = "--costs"
_SECONDS: Final = "seconds of a processor"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        _OPTION, type=int, default=0, metavar="COUNT", help="show the files whose tests cost most"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(_OPTION):
        config.pluginmanager.register(_Costs())


class _Costs:
    """In a process that runs tests it measures, in the one that hears of them it adds up."""

    def __init__(self) -> None:
        self._used_before: float | None = None  # None: no test of the file has begun
        self._is_last = False  # of its file
        self._files: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        self._is_last = nextitem is None or nextitem.path != item.path
        if self._used_before is None:
            self._used_before = cpu_seconds_with_ended(os.getpid())
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown" and self._is_last and self._used_before is not None:
            used = cpu_seconds_with_ended(os.getpid()) - self._used_before
            report.user_properties.append((_SECONDS, used))
            self._used_before = None
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _SECONDS and report.when == "teardown":
                assert isinstance(value, float)
                self._files[report.location[0]] += value

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        total = sum(self._files.values())
        terminalreporter.section(f"{total:,.0f} {_SECONDS}, of these files most")
        dearest = sorted(self._files.items(), key=lambda each: -each[1])
        for file, used in dearest[: config.getoption(_OPTION)]:
            terminalreporter.write_line(f"{used:8.1f}  {file}")
