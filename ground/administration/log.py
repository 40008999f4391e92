"""The administration log of one program: a file with an entry per line, bounded by rotation.

Rule 1: `note` never waits for the disk. A thread opens the file, writes each line with one write,
        and closes it. So a file that is moved or removed is created again, and one that cannot be
        opened for a while loses nothing.
Rule 2: lines that cannot be written are kept, up to a bound, and retried every second. The
        program's log reports the failure and the number of lines dropped.
Rule 3: a full file is renamed to `NAME.1`, and that one to `NAME.2`. Renamed files are never
        truncated or written to, so a reader that follows renames misses nothing that is kept.
Rule 4: refusals cannot crowd out changes. A refusal like one written less than a minute ago, by the
        same author on the same object, is only counted, and written again with its count. The
        number of refusals written one by one in a minute is bounded; the others become one count.

Lines are not synced to disk: they survive any end of the process, but a power loss may lose the
last seconds. Ship the log where that matters.
"""

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ground.administration.entries import OK, Change, Kind, Program, Who
from ground.settings import Bytes, FilePath

FILE_NAME: Final = "administration.log"
MOST_KEPT: Final = 500

_MODE: Final = 0o640
_MOST_WAITING: Final = 10_000
_AGAIN_S: Final = 1.0
_LAST_S: Final = 5.0
_PERIOD_S: Final = 60.0
_MOST_REFUSALS: Final = 200  # written one by one in a period
_MOST_OF_ONE: Final = 50

log = logging.getLogger(__name__)


class AdministrationLogConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The file to which [changes are recorded](administration.md)."""

    file: FilePath = ""
    """The file. Default: `administration.log` in `data_dir`; a registry, which has no `data_dir`,
    then keeps no log."""
    file_bytes: Bytes = 16 * 1024 * 1024
    """The size at which the file is renamed to `.1`."""
    kept_files: int = 10
    """The number of renamed files to keep; older ones are deleted."""

    def __post_init__(self) -> None:
        if self.file_bytes <= 0:
            raise ValueError("`file_bytes` must be positive")
        if not 1 <= self.kept_files <= MOST_KEPT:
            raise ValueError(f"`kept_files` must be between 1 and {MOST_KEPT}")


class CannotRemember(Exception):
    """The log cannot be written."""


class AdministrationLog:
    """The log of one program, written by a thread. `note` is thread-safe. Must be closed."""

    def __init__(
        self,
        path: Path,
        config: AdministrationLogConfig,
        program: Program,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens the log. Raises CannotRemember: a configured log that cannot be written must not go
        unnoticed."""
        self._path = path
        self._config = config
        self._program = program
        self._refusals = _Refusals(clock)
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._busy = self._closing = False
        self._given_up = 0
        self._failing = ""
        try:
            if _is_cut_off(path):
                self._waiting.append(b"\n")
            os.close(self._open())
        except OSError as error:
            raise CannotRemember(
                f"cannot write the administration log {path}: {error.strerror}: see "
                "`administration_log`"
            ) from None
        self._thread = threading.Thread(target=self._run, name="administration log", daemon=True)
        self._thread.start()

    def note(self, who: Who, change: Change) -> None:
        now = datetime.now(UTC)
        with self._changed:
            if change.result == OK or self._refusals.is_told(who, change):
                self._put(self._program.line(now, who, change))
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Waits until every noted entry is in the file, for at most `seconds`; returns whether they
        all are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self) -> None:
        """Writes queued entries, as far as time allows, and closes the log."""
        with self._changed:
            self._closing = True
            self._tell_refusals(everything=True)
            self._changed.notify_all()
        self._thread.join(_LAST_S)

    def _put(self, line: bytes) -> None:
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(line)
        else:
            self._given_up += 1

    def _tell_refusals(self, *, everything: bool = False) -> None:
        now = datetime.now(UTC)
        for author, change, count in self._refusals.due(everything=everything):
            self._put(self._program.line(now, author, change, count))

    # The writer thread

    def _run(self) -> None:
        while True:
            with self._changed:
                # Refusals are counted after a similar one was written, which wakes this thread.
                self._changed.wait_for(
                    lambda: self._waiting or self._closing,
                    _AGAIN_S if self._refusals.pending else None,
                )
                self._tell_refusals()
                if not self._waiting:
                    if self._closing:
                        return
                    continue
                self._busy = True
            has_failed = self._write()
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                if has_failed:
                    self._changed.wait_for(lambda: self._closing, _AGAIN_S)
                    if self._closing:
                        return

    def _write(self) -> bool:
        """Returns whether it failed; unwritten lines keep waiting."""
        try:
            while self._waiting:
                self._write_first()
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._failing:
                self._failing = reason
                log.error("administration log is not writable path=%s error=%r", self._path, reason)
            return True
        if self._failing:
            log.warning(
                "administration log is writable again path=%s given_up=%d",
                self._path,
                self._given_up,
            )
            self._failing, self._given_up = "", 0
        return False

    def _write_first(self) -> None:
        line = self._waiting[0]
        fd = self._open()
        try:
            size = os.fstat(fd).st_size
            if size and size + len(line) > self._config.file_bytes:
                os.close(fd)
                fd = -1
                self._rotate()
                fd = self._open()
            written_bytes = os.write(fd, line)
        finally:
            if fd >= 0:
                os.close(fd)
        if written_bytes < len(line):  # the disk is full: the rest must follow
            self._waiting[0] = line[written_bytes:]
        else:
            self._waiting.popleft()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, _MODE)

    def _rotate(self) -> None:
        """Renames the oldest file first, so that every file has a name at all times."""
        for number in range(self._config.kept_files, 0, -1):
            older_path = rotated(self._path, number)
            newer_path = rotated(self._path, number - 1)
            if newer_path.exists():
                newer_path.replace(older_path)


def rotated(path: Path, number: int) -> Path:
    """Returns the path of the log that was full `number` rotations ago."""
    return path.with_name(f"{path.name}.{number}") if number else path


def append(path: Path, program: Program, who: Who, change: Change) -> None:
    """Appends one line, for a short-lived command. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, _MODE)
    try:
        os.write(fd, program.line(datetime.now(UTC), who, change))
    finally:
        os.close(fd)


def _is_cut_off(path: Path) -> bool:
    """Whether the last line is incomplete, because the machine stopped while it was written."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except FileNotFoundError:
        return False


class _Recent(msgspec.Struct):
    who: Who
    change: Change
    at: float
    times: int = 0  # not yet written


class _Refusals:
    """Keeps recently written refusals, and counts similar ones since then."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._recent: dict[tuple[str, ...], _Recent] = {}
        self._of: Counter[tuple[str, str]] = Counter()
        self._others: dict[tuple[str, str], _Recent] = {}
        self._rest: _Recent | None = None

    @property
    def pending(self) -> bool:
        return bool(self._recent or self._others or self._rest)

    def is_told(self, who: Who, change: Change) -> bool:
        """Whether to write this refusal; otherwise it is counted."""
        author = who.principal[:200], who.address
        key = (*author, change.action, change.kind, change.name[:250], change.result)
        recent_count = self._recent.get(key)
        now = self._clock()
        if recent_count is not None:
            recent_count.times += 1
            return False
        if len(self._recent) < _MOST_REFUSALS and self._of[author] < _MOST_OF_ONE:
            self._recent[key] = _Recent(who, change, now)
            self._of[author] += 1
            return True
        summary = self._others.get(author)
        if summary is None and len(self._others) < _MOST_REFUSALS:
            summary = self._others[author] = _Recent(who, _of_others(change), now)
        if summary is None:
            anonymous_author = replace(who, principal="", address="", listener="", client_id="")
            summary = self._rest = self._rest or _Recent(anonymous_author, _of_others(change), now)
        summary.times += 1
        return False

    def due(self, *, everything: bool) -> list[tuple[Who, Change, int]]:
        """Returns the refusals to write now, with their counts."""
        now = self._clock()
        entries = []
        for key, recent in tuple(self._recent.items()):
            if everything or now - recent.at >= _PERIOD_S:
                if recent.times:
                    entries.append((recent.who, recent.change, recent.times))
                    recent.at, recent.times = now, 0
                else:
                    del self._recent[key]
                    self._forget(key[0], key[1])
        for author, recent in tuple(self._others.items()):
            if everything or now - recent.at >= _PERIOD_S:
                entries.append((recent.who, recent.change, recent.times))
                del self._others[author]
        if self._rest is not None and (everything or now - self._rest.at >= _PERIOD_S):
            entries.append((self._rest.who, self._rest.change, self._rest.times))
            self._rest = None
        return entries

    def _forget(self, principal: str, address: str) -> None:
        self._of[principal, address] -= 1
        if not self._of[principal, address]:
            del self._of[principal, address]


def _of_others(change: Change) -> Change:
    return Change(
        action=change.action,
        kind=Kind.OTHERS,
        name="",
        result=change.result,
        message="further refusals; this result is that of the first",
    )
