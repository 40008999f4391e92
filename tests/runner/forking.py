"""`--forks 4`: all tests are collected once, and four children of that process run them.

What a process needs before its first test, half a minute of a processor where nothing is compiled
yet, is so paid once. Who collected gives away what is to run (scheduling.py), whole files, whose
fixtures are so set up once; with `--quick` a few tests of a file at a time. Each child says what
came of a test by a pipe, and has a temporary directory, output and session fixtures of its own.
It asks again and again whether there is room for it (room.py).

A child that ends before its time fails the run, and is named with the test it was at.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final
from warnings import WarningMessage

import msgspec
import pytest

from tests.runner.room import Room
from tests.runner.scheduling import Ticket, Waiting

FEW: Final = 4  # tests of one file, which may share its fixtures
_MAY_I: Final = "may I go on?"
_ASKS_SECONDS: Final = 2.0  # no more often: most tests take milliseconds
_LOOKS_SECONDS: Final = 0.1

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


def tickets(files: Sequence[Path], most: int | None = None) -> Iterator[Ticket]:
    """For tests that are of these files; of no more than `most` tests each."""
    start = 0
    for file, tests in groupby(files):
        end = start + sum(1 for _ in tests)
        for first in range(start, end, most or end - start):
            yield Ticket(file, first, min(first + (most or end), end))
        start = end


class _Child(msgspec.Struct):
    process: ForkProcess
    channel: "Connection[Any, Any]"
    began: int | None = None  # the test that it is at
    is_done: bool = False


class _Children(msgspec.Struct):
    session: pytest.Session
    started: list[_Child] = []

    def run(self) -> None:
        # Or each child would begin with an empty one, also where it is the same.
        self.session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        option = self.session.config.option
        files = [item.path for item in self.session.items]
        waiting = Waiting(list(tickets(files, FEW if getattr(option, "quick", False) else None)))
        try:
            for number in range(option.forks):
                self._start(number)
            self._listen(waiting)
        finally:
            for each in self.started:
                each.channel.close()  # or it might wait for who was interrupted
            for each in self.started:
                each.process.join()
        self._judge()

    def _start(self, number: int) -> None:
        context = get_context("fork")
        ours, theirs = context.Pipe()
        others = [ours, *(each.channel for each in self.started)]
        process = context.Process(target=_run, args=(self.session, f"fork{number}", theirs, others))
        process.start()
        theirs.close()
        self.started.append(_Child(process, ours))

    def _listen(self, waiting: Waiting) -> None:
        running = {each.channel: each for each in self.started}
        room = Room(running)
        while running:
            for ready in wait(running, _LOOKS_SECONDS):
                assert isinstance(ready, Connection)
                child = running[ready]
                try:
                    said = ready.recv()
                    if said is None:
                        ready.send(waiting.take(child.process.name))
                    elif said == _MAY_I:
                        room.leave(ready)
                    else:
                        self._hear(child, *said)
                except (EOFError, ConnectionError):
                    del running[ready]
                    room.forget(ready)
            for each in room.let_in():
                with suppress(ConnectionError):  # it has ended, as its channel says next
                    each.send(None)
            if self.session.shouldfail or self.session.shouldstop:
                waiting.clear()  # they end what they are at

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
    channel: "Connection[Any, Any]",
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
    telling = _Telling(config, channel)
    config.pluginmanager.register(telling)
    # Whoever collected is interrupted, too, and says so.
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _run_all(session, channel, telling)


def _run_all(session: pytest.Session, channel: "Connection[Any, Any]", telling: "_Telling") -> None:
    config = session.config
    asked = time.monotonic()
    try:
        for index, following in pairwise(chain(_taken(channel), [None])):
            assert index is not None
            if time.monotonic() - asked > _ASKS_SECONDS:
                channel.send(_MAY_I)
                channel.recv()
                asked = time.monotonic()
            telling.tell(index)
            after = None if following is None else session.items[following]
            config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=after)
            if session.shouldfail or session.shouldstop:
                break
    finally:
        session._setupstate.teardown_exact(None)
        config._ensure_unconfigure()
    telling.tell(None)


def _taken(channel: "Connection[Any, Any]") -> Iterator[int]:
    """Tests, one after the other: for the next file is asked when the last test of one begins."""
    while True:
        channel.send(None)
        ticket: Ticket | None = channel.recv()
        if ticket is None:
            return
        yield from range(ticket.first, ticket.end)


class _Telling(msgspec.Struct, eq=False):
    """As a plugin of a child's."""

    config: pytest.Config
    channel: "Connection[Any, Any]"
    calls: list[_Call] = []

    def tell(self, begins: int | None) -> None:
        """What came of the last test, and which one begins."""
        self.channel.send((begins, self.calls))
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
