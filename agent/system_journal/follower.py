"""Follows one journal: takes entries from journalctl, and appends the selected ones to the spool.

The position in the journal is the cursor of the last entry that was taken. The child is started at
that entry rather than after it, so that its first entry shows whether the position still exists.

    missing numbers      read again from the position; if they are missing again, they are gone
    the position gone    with numbers, these decide; without, it is unknown what else is gone
    the spool too large  nothing is read: the journal is the buffer
    no newer entry       the journal was read up to the time at which its last entry was asked for

A loss is a statement in the agent's journal before the position goes beyond it. Runs in a thread of
its own; others may call what follows `# Any thread`.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from agent.accounting.runs import SourceId
from agent.configuration.inputs import Input
from agent.configuration.system_journal import SystemJournal
from agent.encoding.lines.journal_lines import longest_line
from agent.errors import JournalctlError
from agent.history.blind_times import Traces, Unwatched
from agent.history.clock_setting import boot_id
from agent.system_journal.export_format import Entry, ExportParser, micros_of, numbers_of
from agent.system_journal.journalctl import Reading, check_access, last_entry
from agent.system_journal.numbering import Gap, Numbering
from agent.system_journal.selection import MACHINE, Selection
from agent.system_journal.spool import (
    NO_HOLES,
    Spool,
    SpoolState,
    has_holes,
    read_state,
    write_state,
)
from ground.printable import one_line

MOST_UNREAD: Final = 64 * 1024 * 1024

_ASK_EVERY: Final = 10.0
_ASK_AGAIN: Final = 20.0
_MOST_ASKED: Final = 3
_SAVE_EVERY: Final = 5.0
_POLL_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 0.25
_FULL_SECONDS: Final = 0.1
_SHORTEST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_SLACK_MILLIS: Final = 1000  # until journald has written what was sent to it
_KEPT_BYTES: Final = 1024 * 1024
_MOST_CAUGHT_UP: Final = 8

log = logging.getLogger(__name__)


class CaughtUp(NamedTuple):
    """Everything in the journal at `until_millis` was in the spool by `at_millis`."""

    at_millis: int
    until_millis: int


class _Goal(NamedTuple):
    """The last entry of the journal, when it was asked for."""

    entry: Entry | None
    millis: int


class Follower:
    """The journal of one input.

    predecessor     the follower of the same file, which may not have ended yet
    consumed        returns the position in the spool up to which the agent has journalled lines
    state_loss      journals a statement, and then sets the event
    report_problem  reports why the journal cannot be read; empty once it can
    """

    def __init__(
        self,
        input_: Input,
        spool_path: Path,
        state_path: Path,
        *,
        predecessor: "Follower | None" = None,
        consumed: Callable[[], int],
        state_loss: Callable[[Unwatched, threading.Event], None],
        report_problem: Callable[[str], None],
    ) -> None:
        assert input_.journal is not None
        self.input = input_
        self._journal: SystemJournal = input_.journal
        self._spool_path, self._state_path = spool_path, state_path
        self._predecessor = predecessor
        self._consumed, self._state_loss = consumed, state_loss
        self._report_problem = report_problem
        self._selection = Selection(self._journal, input_.max_line_bytes)
        self._spool: Spool | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system journal", daemon=True)
        self._cursor, self._micros = b"", 0
        self._numbering = Numbering({})
        self._machine = b""
        self._pending = bytearray()  # lines that are not in the spool yet
        self._suspected: Gap | None = None
        self._is_first = True  # the next entry is the child's first
        self._goal: _Goal | None = None
        self._asked_at = self._heard_at = float("-inf")
        self._times_asked = 0
        self._saved_at = 0.0
        self._saved = SpoolState()
        self._problem = ""
        self._consumed_before = 0
        self._caught_up: tuple[CaughtUp, ...] = ()
        self.pid = 0  # of the child; any thread

    # Any thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def caught_up(self, scanned_millis: int) -> int:
        """The time up to which a scan of the spool, begun at that time, shows the journal; 0 if it
        is not known."""
        return max(
            (
                caught_up.until_millis
                for caught_up in self._caught_up
                if caught_up.at_millis <= scanned_millis
            ),
            default=0,
        )

    def sync(self) -> None:
        spool = self._spool
        if spool is not None:
            spool.sync()

    # The follower's thread

    def _run(self) -> None:
        if self._predecessor is not None:
            self._predecessor.join()
            self._problem, self._predecessor = self._predecessor._problem, None
        pause = _SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._open()
                self._follow()
                continue
            except (JournalctlError, OSError) as error:
                self._fail(error)
            except Exception as error:
                log.exception("reading a journal failed input=%s", one_line(self.input.label))
                self._fail(JournalctlError(f"reading failed, see the log: {error!r}"))
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _SHORTEST_PAUSE
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        try:
            self._save()
        except OSError as error:
            log.warning("cannot write the position in the journal error=%s", error)
        if self._spool is not None:
            self._spool.close()

    def _fail(self, error: Exception) -> None:
        reason = str(error)
        if isinstance(error, OSError):
            reason = f"{error.filename or self._spool_path}: {error.strerror or error}"
        self._tell(f"{self._journal.place}: {one_line(reason)}")
        self._goal, self._asked_at = None, float("-inf")  # to know soon that it is over

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._report_problem(problem)

    def _follow(self) -> None:
        """Follows the journal until the agent stops, or entries must be read again."""
        check_access(self._journal)
        if not self._journal.directory:
            if not self._read(follows=False):
                return
            if not _is_of_this_boot(self._cursor):
                self._stopping.wait(_POLL_SECONDS)
                return
        self._read(follows=True)

    def _read(self, *, follows: bool) -> bool:
        """Reads entries with one child. Returns False if they must be read again."""
        options = self._beginning()
        child = Reading(self._journal, self._selection.wanted, options, follows=follows)
        self.pid = child.pid
        parser = ExportParser(self._selection.wanted, self._most_value_bytes)
        self._is_first, self._heard_at = True, time.monotonic()
        try:
            while not self._stopping.is_set() and not child.is_over:
                self._write()
                self._check_goal()
                if time.monotonic() - self._saved_at > _SAVE_EVERY:
                    self._save()
                if self._is_full():
                    self._stopping.wait(_FULL_SECONDS)
                    self._heard_at = time.monotonic()
                    continue
                data = child.read(_TURN_SECONDS)
                for text in child.news:
                    log.warning("journalctl input=%s: %s", one_line(self.input.label), text)
                child.news.clear()
                if data:
                    self._heard_at = time.monotonic()
                for entry in parser.feed(data):
                    if not self._take(entry, child):
                        return False
            self._write()
            return not self._stopping.is_set()
        finally:
            self.pid = 0
            child.close()

    @property
    def _most_value_bytes(self) -> int:
        return max(self.input.max_line_bytes, 64 * 1024)

    def _open(self) -> None:
        if self._spool is not None:
            return
        state = read_state(self._state_path)
        for folder in (self._spool_path.parent, self._state_path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not has_holes(self._spool_path.parent):
            raise JournalctlError(NO_HOLES)
        longest = longest_line(self.input.max_line_bytes, len(self._journal.fields))
        spool = Spool(self._spool_path, state.punched, longest + _KEPT_BYTES)
        self._saved = state
        self._cursor, self._micros = state.cursor.encode(), state.micros
        numbers = state.numbers
        if spool.size != state.size and spool.last_cursor:
            # There are lines that the state does not know, or only some of those that it knows.
            self._cursor, numbers = spool.last_cursor, {}
            self._micros = micros_of(self._cursor) or state.micros
        if self._cursor and not numbers:
            numbering, number = numbers_of(self._cursor)
            numbers = {"": number, numbering: number}
        self._numbering = Numbering(numbers)
        self._machine = state.machine.encode()
        self._spool = spool

    def _beginning(self) -> Sequence[str]:
        """The options for the place where the child begins: at the position, or, for a new input,
        where `start` says."""
        if not self._cursor and self.input.start == "end":
            entry = last_entry(self._journal)
            if entry is not None:
                self._cursor, self._micros = entry.cursor, entry.micros
                self._numbering.take(entry)
                self._save()
        if self._cursor:
            return [f"--cursor={self._cursor.decode()}"]
        if self.input.start in {"beginning", "end"}:
            return []
        start = datetime.fromisoformat(self.input.start)
        if start.tzinfo is None:
            start = start.replace(tzinfo=UTC)
        return [f"--since=@{int(start.timestamp())}"]

    def _take(self, entry: Entry, child: Reading) -> bool:
        """Takes the next entry. Returns False if the child must read again."""
        is_first, self._is_first = self._is_first, False
        if is_first and entry.cursor == self._cursor:
            return True
        self._check_machine(entry)
        gap = self._numbering.gap_before(entry)
        is_lost = is_first and bool(self._cursor)  # the position
        is_unsure = is_lost or (not self._cursor and child.ignored)
        if gap is None and is_unsure and not entry.is_exact:
            gap = Gap(0, 0, is_exact=False)
        if gap is not None:
            if gap != self._suspected:
                self._suspected = gap
                return False
            reason = _reason(gap, is_lost=is_lost, ignored=child.ignored)
            if reason and not self._is_stated(self._unwatched(entry, reason)):
                return False
            self._suspected = None
        self._numbering.take(entry)
        self._cursor, self._micros = entry.cursor, entry.micros
        if self._selection.has(entry):
            self._pending += self._selection.line(entry)
        if self._goal and self._goal.entry and self._goal.entry.cursor == entry.cursor:
            self._goal = self._goal._replace(entry=None)
        return True

    def _is_stated(self, loss: Unwatched) -> bool:
        """States a loss. Returns False if the agent stops before that is journalled."""
        is_journalled = threading.Event()
        self._state_loss(loss, is_journalled)
        while not is_journalled.wait(_TURN_SECONDS):
            if self._stopping.is_set():
                return False
        return True

    def _check_machine(self, entry: Entry) -> None:
        """Checks that all entries are of one host: those of others may come late, with times before
        the position, where journalctl does not show them."""
        machine = entry.fields.get(MACHINE, self._machine)
        if self._machine and machine != self._machine:
            raise JournalctlError(
                "has entries of several hosts: give each host a folder, and an input, of its own"
            )
        self._machine = machine

    def _unwatched(self, entry: Entry, reason: str) -> Unwatched:
        until = entry.micros // 1000 + 1
        since = min(self._micros // 1000 or until - 1, until - 1)
        source = SourceId("")
        place = self._journal.place
        return Unwatched(self.input.topic, place, source, -1, since, until, Traces.CHANGED, reason)

    def _write(self) -> None:
        assert self._spool is not None
        while self._pending:
            del self._pending[: self._spool.append(self._pending)]

    def _check_goal(self) -> None:
        """Asks for the last entry of the journal from time to time, and notes when it was taken."""
        now, goal = time.monotonic(), self._goal
        if goal is not None and (goal.entry is None or self._has(goal.entry)):
            caught_up = CaughtUp(time.time_ns() // 1_000_000, goal.millis - _SLACK_MILLIS)
            self._caught_up = (*self._caught_up, caught_up)[-_MOST_CAUGHT_UP:]
            self._goal, self._times_asked = None, 0
            self._tell("")
        is_due = self._goal is None and now - self._asked_at > _ASK_EVERY
        if self._goal is not None and now - max(self._heard_at, self._asked_at) > _ASK_AGAIN:
            self._times_asked += 1
            if self._times_asked >= _MOST_ASKED:
                raise JournalctlError("journalctl does not deliver the last entries of the journal")
            is_due = True
        if is_due:
            asked_millis = time.time_ns() // 1_000_000
            self._goal = _Goal(last_entry(self._journal), asked_millis)
            self._asked_at = time.monotonic()

    def _has(self, entry: Entry) -> bool:
        is_taken = entry.is_exact and self._numbering.has_passed(entry)
        return is_taken or entry.cursor == self._cursor

    def _is_full(self) -> bool:
        """Whether the spool has too much that the agent has not read."""
        assert self._spool is not None
        if self._spool.size - self._consumed_before > MOST_UNREAD:
            self._consumed_before = self._consumed()
        return self._spool.size - self._consumed_before > MOST_UNREAD

    def _save(self) -> None:
        spool = self._spool
        self._saved_at = time.monotonic()
        if spool is None or self._pending:
            return
        spool.give_back(self._consumed())
        numbers = dict(self._numbering.last)
        position = self._cursor.decode(), self._micros, spool.size, numbers
        state = SpoolState(*position, spool.punched, self._machine.decode("ascii", "replace"))
        if state != self._saved:
            spool.sync()
            write_state(self._state_path, state)
            self._saved = state


def _is_of_this_boot(cursor: bytes) -> bool:
    return f";b={boot_id().replace('-', '')};" in cursor.decode()


def _reason(gap: Gap, *, is_lost: bool, ignored: str) -> str:
    """What is known about entries that may be missing; empty if nothing is missing."""
    if gap.is_exact and gap.first:
        numbers = (
            f"numbers {gap.first:,} to {gap.last:,}" if gap.count > 1 else f"number {gap.first:,}"
        )
        entries = "entries were" if gap.count > 1 else "entry was"
        return (
            f"{gap.count:,} {entries} gone from the journal before the agent read it ({numbers}); "
            "how many of them this input selects is unknown"
        )
    if gap.is_exact:
        return (
            "the journal's numbering started over: whether entries after the last one read are "
            "gone is unknown"
        )
    if is_lost:
        return (
            "the entry that was read last is gone from the journal: how many entries after it are "
            "gone, too, is unknown, since systemd numbers entries only from release 254 on"
        )
    if ignored:
        return f"entries may be missing from the journal; journalctl: {ignored}"
    return ""
