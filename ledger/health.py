"""Reports of programs about their own health, in the ledger: version, disks, certificates, a
broker's session with ZooKeeper, and problems that keep an agent from reading or shipping lines.

`HealthProbe` makes them, and `HealthReports` decides when the next one is due: at the start, when
something changes notably, and at least every `interval` seconds. Free space changes notably when it
halves or doubles, so a disk that fills up is reported some ten times in all. Certificates are known
by their file, never by a name in them. Other words about the same problem, which may have figures
in them, are no notable change: they follow within half a minute.

A loader also states which topics it takes, so that readers wait for those not loaded yet.

A statement has no more than a few disks, certificates and problems, and no long text: readers cut
what has.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ground.printable import one_line, path_text
from ground.tls.certificate_expiry import CertificateFiles, CertificateWatch

EVERY_SECONDS: Final = 600.0
MOST_DISKS: Final = 8
MOST_CERTIFICATES: Final = 16
MOST_PROBLEMS: Final = 16
LONGEST_LABEL: Final = 200
LONGEST_TEXT: Final = 400
_OTHER_WORDS_SECONDS: Final = 30.0
MOST_PATTERNS: Final = 2_000
_SMALL: Final = 1024 * 1024  # bytes: below, more or less makes no difference

Json = dict[str, Any]


class Disk(msgspec.Struct, frozen=True):
    """A file system that a program writes to. Sizes are in bytes."""

    label: str  # the directory
    free: int
    total: int


class Certificate(msgspec.Struct, frozen=True):
    """A file of certificates that a program uses."""

    label: str  # the file
    ends: int  # milliseconds since 1970


class ZooKeeperSession(msgspec.Struct, frozen=True):
    """A broker's session with ZooKeeper."""

    connected: bool
    since: int  # milliseconds since 1970
    servers: int = 0  # that it knows of
    serving: int = -1  # how many of them serve; -1: not known


class ProblemKind(StrEnum):
    """The kinds of problems that keep lines from being read or shipped."""

    OTHER = "other"
    REJECTED = "rejected"  # a file of configuration
    UNREADABLE = "unreadable"  # files or folders of an input
    STOPPED = "stopped"  # an input that waits for an operator
    UNMATCHED = "unmatched"  # an input that had files, and matches none


class Problem(msgspec.Struct, frozen=True):
    """A problem that keeps an agent from reading or shipping lines."""

    kind: ProblemKind
    subject: str  # the file, folder or input
    text: str
    since: int = 0  # milliseconds since 1970


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """One health report, as in Ledger.avsc. Times are milliseconds since 1970."""

    started: int
    name: str = ""
    program_version: str = ""
    interval_millis: int = 0
    topics: tuple[str, ...] = ()  # names and patterns that a loader takes; none: unknown
    exclude: tuple[str, ...] = ()  # of these
    disks: tuple[Disk, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    zookeeper: ZooKeeperSession | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def json(self) -> Json:
        """Returns the report as JSON for a ledger entry."""
        statement: Json = msgspec.json.decode(msgspec.json.encode(self))
        return statement


class HealthProbe:
    """Reads the state of a program's disks and certificates. For any thread."""

    def __init__(
        self,
        version: str,
        *,
        name: str = "",
        directories: Iterable[str] = (),
        certificates: CertificateFiles | None = None,
        interval: float = EVERY_SECONDS,
    ) -> None:
        """`directories` lie on the disks that the program writes to; `interval` seconds pass at
        most between two statements, 0 if that is not known."""
        self._directories = tuple(directories)[:MOST_DISKS]
        self._certificates = CertificateWatch(certificates or CertificateFiles())
        self._program = Health(
            started=time.time_ns() // 1_000_000,
            name=name,
            program_version=version,
            interval_millis=int(interval * 1000),
        )

    def health(
        self, zookeeper: ZooKeeperSession | None = None, problems: Sequence[Problem] = ()
    ) -> Health:
        """Returns the current health."""
        ends = sorted(self._certificates.ends().items(), key=lambda item: item[1])
        certificates = [
            Certificate(_label(file), int(end * 1000)) for file, end in ends[:MOST_CERTIFICATES]
        ]
        return replace(
            self._program,
            disks=tuple(_disks(self._directories)),
            certificates=tuple(certificates),
            zookeeper=zookeeper,
            problems=_first(problems),
        )


class HealthReports:
    """Decides when a health report is due. For one thread."""

    def __init__(
        self, interval: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._reported: Health | None = None
        self._due = 0.0

    def is_due(self, health: Health) -> bool:
        last_report, now = self._reported, self._clock()
        if last_report is None or now >= self._due or is_notable(last_report, health):
            return True
        reported_at = self._due - self._interval
        return last_report.problems != health.problems and now >= reported_at + _OTHER_WORDS_SECONDS

    def reported(self, health: Health) -> None:
        """Notes that the report was written."""
        self._reported = health
        self._due = self._clock() + self._interval


def is_notable(before: Health, now: Health) -> bool:
    """Whether the change of health is large enough for a report of its own."""
    if len(before.disks) != len(now.disks) or before.certificates != now.certificates:
        return True
    if (before.name, before.started, before.zookeeper) != (now.name, now.started, now.zookeeper):
        return True
    if _subjects(before) != _subjects(now):
        return True
    sizes = (
        (old_disk.free, new_disk.free)
        for old_disk, new_disk in zip(before.disks, now.disks, strict=True)
    )
    return any(max(pair) >= 2 * max(_SMALL, min(pair)) for pair in sizes)


def _subjects(health: Health) -> set[tuple[ProblemKind, str]]:
    return {(problem.kind, problem.subject) for problem in health.problems}


def _first(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The first problems, with short texts; the last one counts the others, if there are more."""
    shown_problems = [
        replace(problem, subject=_label(problem.subject), text=_short(problem.text))
        for problem in problems[:MOST_PROBLEMS]
    ]
    hidden_problems = len(problems) - MOST_PROBLEMS + 1
    if hidden_problems > 1:
        since = min(problem.since for problem in problems[-hidden_problems:])
        shown_problems[-1] = Problem(
            ProblemKind.OTHER, "", f"{hidden_problems:,} more problems", since
        )
    return tuple(shown_problems)


def _disks(directories: Iterable[str]) -> Iterator[Disk]:
    """Several directories on one file system are one disk."""
    devices: set[int] = set()
    for directory in directories:
        try:
            device = Path(directory).stat().st_dev
            file_system = os.statvfs(directory)
        except OSError:
            continue  # not there yet; the code that uses it reports it
        if device not in devices:
            devices.add(device)
            unit, label = file_system.f_frsize, _label(str(Path(directory).absolute()))
            yield Disk(label, file_system.f_bavail * unit, file_system.f_blocks * unit)


def _label(path: str) -> str:
    text = path_text(path)
    return text if len(text) <= LONGEST_LABEL else f"…{text[1 - LONGEST_LABEL :]}"


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
