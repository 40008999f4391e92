"""The command that mends a fault, or accepts it where nothing else is left. Pure.

A command is exact: it has the files of this installation, the topic, and the hours, events, bytes
or offsets of the fault, so that it can be copied into a shell. Every name from outside is quoted,
and one with characters that cannot be seen makes no command. A command that accepts has `REASON`
where the operator writes why. What has to be looked at first is in the runbook
(`audit/runbook.py`).
"""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, Self

from audit.configuration.config import CommandsConfig
from audit.findings import CommandKind, FaultKind, Finding
from audit.picture import TierKind, TopicKey
from audit.reconciling.words import LOG_LOST

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_MOST_HOURS: Final = 24  # of a command; a longer time is given in days
_MOST_DAYS: Final = 31
_LONGEST: Final = 4_000  # names from outside can be long
_LANDS: Final = frozenset(
    {FaultKind.MISSING, FaultKind.DUPLICATED, FaultKind.CHANGED, FaultKind.UNNAMED}
)
_LANDED: Final = re.compile(
    r"([A-Za-z0-9._-]{1,249})/(dt=\d{4}-\d\d-\d\d(?:/hour=\d\d)?)/[^/]{1,255}"
)
# What a loader says of itself comes from the ledger: only a command of these letters is one.
_OF_LOADER: Final = re.compile(
    r"`(penstock (?:load|schemas delete)(?: [\w./=:@%+\-]+)+)`", re.ASCII
)


class HasCommand(Protocol):
    """A struct with both."""

    @property
    def command(self) -> str: ...
    @property
    def command_kind(self) -> CommandKind | None: ...


class Cure(NamedTuple):
    """A command, and what it does; empty if there is none. The names are those in the API."""

    command: str = ""
    command_kind: CommandKind | None = None

    @classmethod
    def of(cls, said: HasCommand) -> Self:
        """What a struct of the API has of it."""
        return cls(said.command, said.command_kind)

    @property
    def fields(self) -> dict[str, Any]:
        """For a struct that has both."""
        return self._asdict()


# What is accepted is never mended.
_LEADS: Final = {
    CommandKind.MENDS: "what to do",
    CommandKind.ACCEPTS: "if no copy can be shipped again, accept it",
    CommandKind.LOOKS: "to see more",
}


def advice(cure: Cure) -> str:
    """The command with what to think of first."""
    return f"{_LEADS[cure.command_kind or CommandKind.MENDS]}: {cure.command}"


def cure_for(finding: Finding, key: TopicKey, commands: CommandsConfig) -> Cure:
    """Empty if there is none, as for what is accepted already."""
    if finding.accepted:
        return Cure()
    kind, words = CommandKind.MENDS, _rebuilding(finding, key, commands)
    if not words:
        kind, words = CommandKind.ACCEPTS, _accepting(finding, key, commands)
    command = in_shell(words, commands) if words else ""
    is_shown = command and len(command) <= _LONGEST and command.isprintable()
    return Cure(command, kind) if is_shown else Cure()


def cure_in(words: str, commands: CommandsConfig) -> Cure:
    """The loader's command in what it says of a cure; empty if it has none."""
    found = _OF_LOADER.search(words)
    if found is None:
        return Cure()
    typed = found[1].split()
    kind = CommandKind.ACCEPTS if "--accept-gap" in typed else CommandKind.MENDS
    return Cure(in_shell(typed, commands), kind)


def cure_words(words: str, commands: CommandsConfig, *, short: bool = False) -> str:
    """What a loader says of a cure, with its command in a shell that finds the pipeline; `short`:
    for beside the command."""

    def command(found: re.Match[str]) -> str:
        typed = found[1].split()
        return f"`{' '.join(typed[:2])} …`" if short else f"`{in_shell(typed, commands)}`"

    return _OF_LOADER.sub(command, words)


def in_shell(words: list[str], commands: CommandsConfig) -> str:
    """A command of Penstock's, in a shell that finds the pipeline."""
    command = shlex.join(words)
    if not commands.environment:
        return command
    return f". {shlex.quote(commands.environment)} && {command}"


def _rebuilding(finding: Finding, key: TopicKey, commands: CommandsConfig) -> list[str]:
    """Rewrites hours with wrong rows from the brokers, unless their log has lost them. A file that
    no load has written stays."""
    if finding.tier != TierKind.HDFS or finding.kind not in _LANDS:
        return []
    if finding.reason.startswith(LOG_LOST):
        return []
    table, hours = key.topic, list(_hours(finding))
    if finding.is_landed_file:
        landed = _LANDED.fullmatch(finding.path)
        if landed is None or finding.kind is FaultKind.DUPLICATED:
            return []
        table, hours = landed[1], [landed[2]]
    if not hours:
        return []
    rebuild = [word for hour in hours for word in ("--rebuild", hour)]
    return ["penstock", "load", "--config", commands.loader, "--topics", table, *rebuild]


def _hours(finding: Finding) -> Iterator[str]:
    """As folders; whole days where there are many, none where there are too many."""
    if finding.from_time < 0:
        return
    end = max(finding.to_time, finding.from_time + 1)
    step, folder = _HOUR, "dt=%Y-%m-%d/hour=%H"
    if end - finding.from_time > _MOST_HOURS * _HOUR:
        step, folder = _DAY, "dt=%Y-%m-%d"
    steps = range(finding.from_time // step * step, end, step)
    if len(steps) <= _MOST_DAYS:
        for each in steps:
            yield datetime.fromtimestamp(each / 1000, UTC).strftime(folder)


def _accepting(finding: Finding, key: TopicKey, commands: CommandsConfig) -> list[str]:
    """By the most exact names that the fault has; none where it has none."""
    if named := list(_names(finding)):
        file = ["--config", commands.audit] if commands.audit else []
        whose = ["--topic-id", key.topic_id] if key.topic_id else []
        place = [*file, "--cluster", key.cluster, *whose]
        return ["penstock", "audit", "accept", key.topic, *place, *named, "--reason", "REASON"]
    return []


def _names(finding: Finding) -> Iterator[str]:
    end = finding.end_position
    if finding.source and finding.seq >= 0 and finding.events > 0 and not _is_of_lines(finding):
        last = finding.seq + finding.events - 1
        yield from ("--source", finding.source, "--seqs", f"{finding.seq}-{last}")
    elif finding.source and finding.position >= 0 and end > finding.position:
        yield from ("--source", finding.source, "--bytes", f"{finding.position}-{end}")
    elif finding.source and finding.position >= 0 and finding.kind is FaultKind.UNKNOWN:
        at = finding.position  # where it ends is not known
        yield from ("--source", finding.source, "--bytes", f"{at}-{at + 1}")
    elif finding.partition >= 0 and finding.offset >= 0 and finding.offsets > 0:
        last = finding.offset + finding.offsets - 1
        yield from ("--partition", str(finding.partition), "--offsets", f"{finding.offset}-{last}")
    elif 0 <= finding.from_time < finding.to_time:
        if finding.host:
            yield from ("--host", finding.host)
        yield from ("--from", _time(finding.from_time), "--to", _time(finding.to_time, up=True))


def _is_of_lines(finding: Finding) -> bool:
    """Lines that were lost have no numbers of events."""
    return finding.kind is FaultKind.LOST


def _time(millis: int, *, up: bool = False) -> str:
    """To the second, as the command takes it."""
    seconds = -(-millis // 1000) if up else millis // 1000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
