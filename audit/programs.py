"""Programs that report their health in the ledger: their problems, described with the command that
inspects or repairs each. Pure, except `this_audit`.

Problems that keep an agent from reading or shipping lines are alerts of one kind.

A mirror is away when it was not heard for two and a half of its intervals, and at least a minute; a
loader when three loads should have begun since. Agents have heartbeats instead, and brokers are
polled. A statement counts until its program's next one, or until its host is retired: a stopped
agent does not empty its disk.

Names, paths and figures come from the ledger; audit/cures/program_commands.py makes commands of
them.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from audit.configuration.config import AlertsConfig
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands
from ledger.health import Disk, Health, HealthProbe, Problem, ProblemKind, ZooKeeperSession

_PACES: Final = {"mirror": 2.5, "loader": 3.0}
_LEAST_AWAY: Final = 60_000  # milliseconds: on a busy machine short intervals stretch
_RECENT_PACES: Final = 3
_SMALL_DISK: Final = 10  # the limit is a tenth of the disk, if that is less
_NO_ROOM: Final = 2**20  # bytes: a batch may be as large
_CERTIFICATE_SHOWN: Final = ("openssl", "x509", "-noout", "-subject", "-enddate", "-in")
_MINUTE: Final = 60_000
_PROBLEMS: Final = {
    ProblemKind.REJECTED: "rejects {}",
    ProblemKind.UNREADABLE: "cannot read {}",
    ProblemKind.STOPPED: "has stopped input {}",
    ProblemKind.UNMATCHED: "finds no file of input {} any more",
}
_UNITS: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


# Kinds of alerts about a program.
MIRROR: Final = "mirror"
LOADER: Final = "loader"
ZOOKEEPER: Final = "zookeeper"
CERTIFICATE: Final = "certificate"
DISK: Final = "disk"
INPUTS: Final = "inputs"
# Shown with the health of a broker. Its alert is that of the fault, `changed`, until accepted.
DAMAGED: Final = "damaged"
# Shown with the health of an agent. No alert: the application may have been removed.
UNMATCHED: Final = "unmatched"


class ProgramKind(StrEnum):
    """The kinds of programs, named as in the ledger and on the page."""

    AGENT = "agent"
    BROKER = "broker"
    MIRROR = "mirror"
    LOADER = "loader"
    AUDIT = "audit"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and its latest report. Times are milliseconds since 1970."""

    kind: ProgramKind
    cluster: str
    host: str
    name: str  # the id of an agent or broker, the name of a mirror, the root of a loader
    heard: int
    health: Health
    unwritable: frozenset[str] = frozenset()  # topics that a broker with a full disk leads

    @property
    def title(self) -> str:
        match self.kind:
            case ProgramKind.AGENT:
                return f"the agent on {self.host}"
            case ProgramKind.AUDIT:
                return f"the audit on {self.host}"
            case ProgramKind.LOADER:
                return f"the loader on {self.host} into {self.name}"
        return f"{self.kind} {self.name} on {self.host}"

    @property
    def interval(self) -> int:
        """The milliseconds between reports; 0 if unknown."""
        return self.health.interval_millis

    def is_away(self, now: int) -> bool:
        paces = _PACES.get(self.kind)
        if paces is None or self.interval <= 0:
            return False
        return now - self.heard > max(_LEAST_AWAY, paces * self.interval)

    def is_recent(self, now: int) -> bool:
        """Whether the report about ZooKeeper is recent enough to be used."""
        return now - self.heard <= _RECENT_PACES * self.interval

    def lost_session(self, now: int) -> ZooKeeperSession | None:
        """The broker's session with ZooKeeper, if it is lost."""
        session = self.health.zookeeper if self.is_recent(now) else None
        return session if session is not None and not session.connected else None

    @property
    def full_disk(self) -> Disk | None:
        """A broker's disk that has no room for batches."""
        disks = self.health.disks if self.kind is ProgramKind.BROKER else ()
        return next(filter(is_full, disks), None)


def is_full(disk: Disk) -> bool:
    return disk.free < _NO_ROOM


class Trouble(NamedTuple):
    """A problem of a program, with the kind of its alert."""

    kind: str
    words: str
    cure: Cure = Cure()
    since: int = -1  # -1: unknown


def troubles(
    program: Program, config: AlertsConfig, commands: ProgramCommands, now: int, room: float = 1.0
) -> Iterator[Trouble]:
    """Returns the problems of a program; its absence comes first. `room` is a factor for the free
    space that disks must have."""
    host = program.host
    if program.is_away(now):
        kind = LOADER if program.kind is ProgramKind.LOADER else MIRROR
        cure = commands.restart(kind, host=host)
        yield Trouble(kind, _away_words(program), cure, program.heard)
    if (session := program.lost_session(now)) is not None:
        since = moment(session.since)
        words = f"{program.title} has had no session with ZooKeeper since {since}"
        yield Trouble(ZOOKEEPER, words, commands.reach_zookeeper(), session.since)
    for problem in program.health.problems:
        words = f"{program.title} {_problem_words(problem)}"
        if program.kind is ProgramKind.BROKER:
            yield Trouble(DAMAGED, words, since=problem.since or -1)
            continue
        cure = commands.look(*_shown_by(problem), host=host)
        kind = UNMATCHED if problem.kind is ProblemKind.UNMATCHED else INPUTS
        yield Trouble(kind, words, cure, problem.since or -1)
    for disk in program.health.disks:
        if disk.free >= room * min(config.disk, disk.total // _SMALL_DISK):
            continue
        free_space, total_space = size(disk.free), size(disk.total)
        words = f"{program.title} has {free_space} of {total_space} left in {disk.label}"
        if program.kind is ProgramKind.BROKER and is_full(disk):
            words = f"{program.title} takes no lines: its disk is full, make room in {disk.label}"
        yield Trouble(DISK, words, commands.look_at_disk(disk.label, host))
    for certificate in program.health.certificates:
        if certificate.ends >= now + int(config.certificates * 1000):
            continue
        verb = "expired" if certificate.ends <= now else "expires"
        words = f"a certificate of {program.title} {verb} {moment(certificate.ends)}"
        show_command = (*_CERTIFICATE_SHOWN, certificate.label)
        cure = commands.look(*show_command, host=host)
        yield Trouble(CERTIFICATE, f"{words}: {certificate.label}", cure)


def room_first(broker: Program, commands: ProgramCommands) -> tuple[str, Cure]:
    """Returns the words and the command to make room before a restart, for an absent broker whose
    disk was full at its last report; empty for other brokers."""
    disk = broker.full_disk
    if disk is None:
        return "", Cure()
    words = f"; its disk was full: make room in {disk.label}, then start it"
    return words, commands.look_at_disk(disk.label, broker.host)


def _problem_words(problem: Problem) -> str:
    problem_words = _PROBLEMS.get(problem.kind)
    if problem_words is None:  # of a later release, or the number of further problems
        return f"has {': '.join(filter(None, (problem.subject, problem.text)))}"
    return f"{problem_words.format(problem.subject)}: {problem.text}"


def _shown_by(problem: Problem) -> tuple[str, ...]:
    """The command that shows a problem on its host; for a cut path, the agent's status."""
    if problem.subject.startswith("/"):
        match problem.kind:
            case ProblemKind.REJECTED:
                return ("penstock", "check-config", "inputs", problem.subject)
            case ProblemKind.UNREADABLE:
                return ("namei", "-l", problem.subject)
    return ("penstock", "agent", "--status")


def _away_words(program: Program) -> str:
    interval, last_report = _duration(program.interval), moment(program.heard)
    if program.kind is ProgramKind.LOADER:
        return (
            f"{program.title} was last at work at {last_report}, and should begin a load every"
            f" {interval}"
        )
    return f"{program.title} was last heard at {last_report}, and should be heard every {interval}"


def servers_words(brokers: Iterable[Program], now: int) -> str:
    """Describes how many ZooKeeper servers are not serving, from the latest report of a broker;
    empty if all are serving, or if that is unknown."""
    sessions = [
        (program.heard, program.title, session)
        for program in brokers
        if (session := program.health.zookeeper) is not None
        and session.serving >= 0
        and program.is_recent(now)
    ]
    if not sessions:
        return ""
    _, title, session = max(sessions, key=lambda entry: entry[0])
    silent_servers = session.servers - session.serving
    if silent_servers <= 0:
        return ""
    return (
        f"{silent_servers:,} of {session.servers:,} servers of ZooKeeper do not serve, says {title}"
    )


def this_audit(probe: HealthProbe, now: int) -> Program:
    """Returns this audit as a program, for the health page."""
    health = probe.health()
    host = platform.node()
    return Program(kind=ProgramKind.AUDIT, cluster="", host=host, name="", heard=now, health=health)


def moment(time: int) -> str:
    """Formats a time as `2026-11-20 07:12:00 UTC`, or in milliseconds if it is outside the
    calendar."""
    try:
        return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"


def size(number: int) -> str:
    """Formats a size as `1.2 GiB`."""
    for unit, length in _UNITS:
        if number >= length:
            return f"{number / length:,.1f} {unit}"
    return f"{number:,} bytes"


def _duration(millis: int) -> str:
    if millis % (60 * _MINUTE) == 0:
        hours = millis // (60 * _MINUTE)
        return "hour" if hours == 1 else f"{hours:,} h"
    if millis % _MINUTE == 0:
        return "minute" if millis == _MINUTE else f"{millis // _MINUTE:,} min"
    return f"{millis / 1000:,.0f} s"


def in_words(texts: Sequence[str], most: int) -> Iterator[str]:
    """Joins the first texts, and adds how many more there are."""
    yield from texts[:most]
    if len(texts) > most:
        yield f"and {len(texts) - most:,} more"
