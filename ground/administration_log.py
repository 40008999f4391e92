"""The administration log of one program: a file of entries, a line each, bounded by rotation.

Rule 1: whoever notes a change waits for no disk. Lines go to a thread of their own, which opens the
        file, writes each line with one write, and closes it. So a file that somebody else moves or
        removes is made anew, and one that cannot be opened for a while is not lost.
Rule 2: what cannot be written is kept, up to a bound, and tried again each second. The program's
        log says that it fails, and how many lines were given up.
Rule 3: a full file is renamed to `NAME.1`, and that one to `NAME.2`. It is never cut or written to
        again, so whoever follows it by rename loses nothing that is kept.
Rule 4: refusals cannot push changes out. One that was told less than a minute ago, of the same
        person about the same, is counted, and told again with its number; so many are told one by
        one in a minute, and the others as a number.

Lines are not synced to the disk: they survive the end of the program, however it ends. A machine
that loses power may lose the last seconds, as it may of any log. What matters is shipped.
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

from ground.administration import OK, Change, Kind, Program, Who
from ground.settings import Bytes, FilePath

FILE_NAME: Final = "administration.log"
MOST_KEPT: Final = 500

_MODE: Final = 0o640
_MOST_WAITING: Final = 10_000
_AGAIN_S: Final = 1.0
_LAST_S: Final = 5.0
_PERIOD_S: Final = 60.0
_MOST_REFUSALS: Final = 200  # told one by one in a period
_MOST_OF_ONE: Final = 50

log = logging.getLogger(__name__)


class AdministrationLogConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Where it is [remembered](administration.md) who changed what."""

    file: FilePath = ""
    """The file. Without it: `administration.log` in `data_dir`; a registry, which has none,
    remembers nothing."""
    file_bytes: Bytes = 16 * 1024 * 1024
    """So large it becomes before it is called `.1`."""
    kept_files: int = 10
    """How many are kept beside it; the oldest goes."""

    def __post_init__(self) -> None:
        if self.file_bytes <= 0:
            raise ValueError("`file_bytes` must be positive")
        if not 1 <= self.kept_files <= MOST_KEPT:
            raise ValueError(f"`kept_files` must be between 1 and {MOST_KEPT}")


class CannotRemember(Exception):
    """The log cannot be written where it is to be."""


class AdministrationLog:
    """Any thread may note; one writes. To be closed."""

    def __init__(
        self,
        path: Path,
        config: AdministrationLogConfig,
        program: Program,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises CannotRemember: who asks for a log must not believe that there is one."""
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
                f"the administration log cannot be written at {path}: {error.strerror}: see "
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
        """Whether all that was noted is in the file, in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self) -> None:
        """Write what waits, as far as there is time."""
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
        for who, change, times in self._refusals.due(everything=everything):
            self._put(self._program.line(now, who, change, times))

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                # Before a refusal is counted one is written, which wakes this thread.
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
            failed = self._write()
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                if failed:
                    self._changed.wait_for(lambda: self._closing, _AGAIN_S)
                    if self._closing:
                        return

    def _write(self) -> bool:
        """Whether it failed; what was not written waits on."""
        try:
            while self._waiting:
                self._write_first()
        except OSError as error:
            why = error.strerror or str(error)
            if why != self._failing:
                self._failing = why
                log.error("administration is not written path=%s error=%r", self._path, why)
            return True
        if self._failing:
            log.warning(
                "administration is written again path=%s given_up=%d", self._path, self._given_up
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
            written = os.write(fd, line)
        finally:
            if fd >= 0:
                os.close(fd)
        if written < len(line):  # the disk is full: the rest is to follow
            self._waiting[0] = line[written:]
        else:
            self._waiting.popleft()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, _MODE)

    def _rotate(self) -> None:
        """The oldest makes room first, so that every file has a name at every moment."""
        for number in range(self._config.kept_files, 0, -1):
            older = rotated(self._path, number)
            newer = rotated(self._path, number - 1)
            if newer.exists():
                newer.replace(older)


def rotated(path: Path, number: int) -> Path:
    """Where the log is that was full `number` rotations ago."""
    return path.with_name(f"{path.name}.{number}") if number else path


def append(path: Path, program: Program, who: Who, change: Change) -> None:
    """A line from a command, which ends at once. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, _MODE)
    try:
        os.write(fd, program.line(datetime.now(UTC), who, change))
    finally:
        os.close(fd)


def _is_cut_off(path: Path) -> bool:
    """Whether its last line has no end: the machine stopped in the middle of it."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except FileNotFoundError:
        return False


class _Told(msgspec.Struct):
    who: Who
    change: Change
    at: float
    times: int = 0  # since then


class _Refusals:
    """What was told lately, and what came since."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[tuple[str, ...], _Told] = {}
        self._of: Counter[tuple[str, str]] = Counter()
        self._others: dict[tuple[str, str], _Told] = {}
        self._rest: _Told | None = None

    @property
    def pending(self) -> bool:
        return bool(self._told or self._others or self._rest)

    def is_told(self, who: Who, change: Change) -> bool:
        """Whether this one is to be written; else it is counted."""
        somebody = who.principal[:200], who.address
        key = (*somebody, change.action, change.kind, change.name[:250], change.result)
        told = self._told.get(key)
        now = self._clock()
        if told is not None:
            told.times += 1
            return False
        if len(self._told) < _MOST_REFUSALS and self._of[somebody] < _MOST_OF_ONE:
            self._told[key] = _Told(who, change, now)
            self._of[somebody] += 1
            return True
        others = self._others.get(somebody)
        if others is None and len(self._others) < _MOST_REFUSALS:
            others = self._others[somebody] = _Told(who, _of_others(change), now)
        if others is None:
            nobody = replace(who, principal="", address="", listener="", client_id="")
            others = self._rest = self._rest or _Told(nobody, _of_others(change), now)
        others.times += 1
        return False

    def due(self, *, everything: bool) -> list[tuple[Who, Change, int]]:
        """What is to be told with its number, now."""
        now = self._clock()
        found = []
        for key, told in tuple(self._told.items()):
            if everything or now - told.at >= _PERIOD_S:
                if told.times:
                    found.append((told.who, told.change, told.times))
                    told.at, told.times = now, 0
                else:
                    del self._told[key]
                    self._forget(key[0], key[1])
        for somebody, told in tuple(self._others.items()):
            if everything or now - told.at >= _PERIOD_S:
                found.append((told.who, told.change, told.times))
                del self._others[somebody]
        if self._rest is not None and (everything or now - self._rest.at >= _PERIOD_S):
            found.append((self._rest.who, self._rest.change, self._rest.times))
            self._rest = None
        return found

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
        message="more refusals, of which this is the first one's",
    )
