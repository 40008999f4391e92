"""`--forks 4`: all tests are collected once, and four children of that process run them.

What a process needs before its first test, five seconds of a processor for imports and for what
there is, is so paid once: pytest-xdist pays it in each of its processes. Which child runs what is
decided as they go, a few tests of one file at a time. Each says what came of a test by a pipe, and
has a temporary directory, output and session fixtures of its own.

A child that ends before its time fails the run, and is named with the test it was at.
"""

import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Final
from warnings import WarningMessage

import pytest

AT_ONCE: Final = 4  # tests of one file, which may share its fixtures
_TICKET: Final = struct.Struct("<II")  # the first of some tests, and the one after them

_Call = tuple[str, dict[str, Any]]  # of a hook


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks",
        type=int,
        default=0,
        metavar="COUNT",
        help="children that run what was collected; 0: this process does",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.forks or option.collectonly or option.usepdb or session.testsfailed:
        return None
    _Children(session).run()
    return True


def tickets(files: Sequence[object]) -> Iterator[tuple[int, int]]:
    """From where to where, for tests that are of these files."""
    start = 0
    for _, tests in groupby(files):
        end = start + sum(1 for _ in tests)
        for first in range(start, end, AT_ONCE):
            yield first, min(first + AT_ONCE, end)
        start = end


@dataclass(slots=True)
class _Child:
    process: ForkProcess
    receiver: "Connection[Any, Any]"
    began: int | None = None  # the test that it is at
    is_done: bool = False


@dataclass(slots=True)
class _Children:
    session: pytest.Session
    started: list[_Child] = field(default_factory=list)

    def run(self) -> None:
        # Or each child would begin with an empty one, also where it is the same.
        self.session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        # Whoever reads on from where another one stopped has a ticket that nobody else has.
        with tempfile.TemporaryFile(buffering=0) as waiting:
            files = [item.path for item in self.session.items]
            waiting.write(b"".join(_TICKET.pack(*each) for each in tickets(files)))
            waiting.seek(0)
            try:
                for number in range(self.session.config.option.forks):
                    self._start(number, waiting.fileno())
                self._listen(waiting.fileno())
            finally:
                waiting.seek(0, os.SEEK_END)
                for each in self.started:
                    each.receiver.close()  # or it might wait for who was interrupted
                for each in self.started:
                    each.process.join()
        self._judge()

    def _start(self, number: int, waiting: int) -> None:
        context = get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        others = [receiver, *(each.receiver for each in self.started)]
        process = context.Process(
            target=_run, args=(self.session, f"fork{number}", waiting, sender, others)
        )
        process.start()
        sender.close()
        self.started.append(_Child(process, receiver))

    def _listen(self, waiting: int) -> None:
        running = {each.receiver: each for each in self.started}
        while running:
            for ready in wait(running):
                assert isinstance(ready, Connection)
                child = running[ready]
                try:
                    said = ready.recv()
                except EOFError:
                    del running[ready]
                else:
                    self._hear(child, *said)
            if self.session.shouldfail or self.session.shouldstop:
                os.lseek(waiting, 0, os.SEEK_END)  # they end what they are at

    def _hear(self, child: _Child, began: int | None, calls: Sequence[_Call]) -> None:
        child.began = began
        child.is_done = began is None
        config = self.session.config
        for name, arguments in calls:
            if name == "pytest_runtest_logreport":
                data = arguments["report"]
                report = config.hook.pytest_report_from_serializable(config=config, data=data)
                config.hook.pytest_runtest_logreport(report=report)
            elif name == "pytest_warning_recorded":
                config.hook.pytest_warning_recorded.call_historic(kwargs=arguments)
            else:
                getattr(config.hook, name)(**arguments)

    def _judge(self) -> None:
        session = self.session
        for each in self.started:
            if not each.is_done or each.process.exitcode:
                at = "no test" if each.began is None else session.items[each.began].nodeid
                code = each.process.exitcode
                session.shouldfail = f"{each.process.name} ended with {code} at {at}"
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _run(
    session: pytest.Session,
    name: str,
    waiting: int,
    sender: "Connection[Any, Any]",
    others: Sequence["Connection[Any, Any]"],
) -> None:
    """What a child does."""
    for each in others:
        each.close()
    config = session.config
    own = config._tmp_path_factory.getbasetemp() / name  # type: ignore[attr-defined]
    own.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = own  # type: ignore[attr-defined]
    capturing: Any = config.pluginmanager.getplugin("capturemanager")
    capturing.stop_global_capturing()
    capturing.start_global_capturing()
    capturing.suspend_global_capture()
    config.pluginmanager.unregister(name="terminalreporter")
    telling = _Telling(config, sender)
    config.pluginmanager.register(telling)
    # Whoever collected is interrupted, too, and says so.
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _run_all(session, waiting, telling)


def _run_all(session: pytest.Session, waiting: int, telling: "_Telling") -> None:
    config = session.config
    try:
        for index, following in pairwise(chain(_taken(waiting), [None])):
            assert index is not None
            telling.tell(index)
            after = None if following is None else session.items[following]
            config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=after)
            if session.shouldfail or session.shouldstop:
                os.lseek(waiting, 0, os.SEEK_END)
                break
    finally:
        session._setupstate.teardown_exact(None)
        config._ensure_unconfigure()
    telling.tell(None)


def _taken(waiting: int) -> Iterator[int]:
    while ticket := os.read(waiting, _TICKET.size):
        yield from range(*_TICKET.unpack(ticket))


@dataclass(slots=True, eq=False)
class _Telling:
    """As a plugin of a child's."""

    config: pytest.Config
    sender: "Connection[Any, Any]"
    calls: list[_Call] = field(default_factory=list)

    def tell(self, begins: int | None) -> None:
        """What came of the last test, and which one begins."""
        self.sender.send((begins, self.calls))
        self.calls = []

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.calls.append(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.calls.append(("pytest_runtest_logreport", {"report": data}))

    def pytest_warning_recorded(
        self, warning_message: WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        shown = WarningMessage(
            str(warning_message.message),
            warning_message.category,
            warning_message.filename,
            warning_message.lineno,
            line=warning_message.line,
        )
        said = {"warning_message": shown, "when": when, "nodeid": nodeid, "location": location}
        self.calls.append(("pytest_warning_recorded", said))

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self.calls.append(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))
