"""Finds the command that repairs a fault or, if no command does, accepts it. Pure.

A command can be copied into a shell: it has this installation's configuration files, the topic, and
the hours, events, bytes or offsets of the fault. Names from outside are quoted; a name with
unprintable characters makes no command. In a command that accepts, the operator replaces `REASON`.
The runbook (`audit/cures/runbook.py`) has what to check first.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, Self

from audit.configuration.config import CommandsConfig
from audit.reconciling.findings import CommandKind, FaultKind, Finding
from audit.reconciling.picture import TierKind, TopicKey
from audit.reconciling.words import LOG_LOST, NO_LOAD_WROTE, PASSED_OVER, REBUILT
from ledger.extra_files import move_command

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_MOST_HOURS: Final = 24  # in a command; a longer time is given in days
_MOST_DAYS: Final = 31
_LONGEST: Final = 4_000  # names from outside can be long
_LANDS: Final = frozenset(
    {FaultKind.MISSING, FaultKind.DUPLICATED, FaultKind.CHANGED, FaultKind.UNNAMED}
)
_LANDED: Final = re.compile(
    r"([A-Za-z0-9._-]{1,249})/(dt=\d{4}-\d\d-\d\d(?:/hour=\d\d)?)/[^/]{1,255}"
)
# A loader's words come from the ledger: only this form and these characters make a command. The
# program's path, which the words may have, is left out.
_WORD: Final = r"(?:[\w./=:@%+\-]|'[ -&(-_a-~]*')+"
_OF_LOADER: Final = re.compile(
    rf"`(?:'?/[\w./ +\-]*/)?penstock'? ((?:load|schemas (?:delete|show))(?: {_WORD})+)`", re.ASCII
)
_UNKNOWN_FILE: Final = "FILE"
# Kinds of faults in events that have arrived: shipping them again would not help.
ARRIVED: Final = frozenset({FaultKind.DUPLICATED.value, FaultKind.CHANGED.value})


class HasCommand(Protocol):
    """An API struct that has a command."""

    @property
    def command(self) -> str: ...
    @property
    def command_kind(self) -> CommandKind | None: ...


class Cure(NamedTuple):
    """A command and its effect; empty if there is none. The fields are named as in the API."""

    command: str = ""
    command_kind: CommandKind | None = None

    @classmethod
    def of(cls, source: HasCommand) -> Self:
        """Returns the cure in a struct of the API."""
        return cls(source.command, source.command_kind)

    @property
    def fields(self) -> dict[str, Any]:
        """Returns the fields for a struct of the API."""
        return self._asdict()


_LEADS: Final = {
    CommandKind.MENDS: "what to do",
    # An accepted fault is never repaired.
    CommandKind.ACCEPTS: "if no copy can be shipped again, accept it",
    CommandKind.LOOKS: "to see more",
}


def advice(cure: Cure, kind: str = "") -> str:
    """The command, introduced by its purpose. `kind`: of the finding or alert, if it is of one."""
    lead = _LEADS[cure.command_kind or CommandKind.MENDS]
    if cure.command_kind is CommandKind.ACCEPTS and kind in ARRIVED:
        lead = "if it cannot be repaired, accept it"
    return f"{lead}: {cure.command}"


def cure_for(
    finding: Finding,
    key: TopicKey,
    commands: CommandsConfig,
    load_advice: Mapping[str, str] = MappingProxyType({}),
) -> Cure:
    """Returns the cure of a finding; empty if the finding is not open, or has no cure.
    `load_advice`: the latest advice of the topic's loaders, by root."""
    if not finding.is_open:
        return Cure()
    kind = CommandKind.MENDS
    if finding.is_landed_file and finding.reason.startswith(NO_LOAD_WROTE):
        # A rebuild leaves it where it is, and the next check finds the hour whole once it is gone.
        command = move_command(finding.destination.rstrip("/"), finding.path)
    else:
        command = _rebuilding(finding, key, commands, load_advice)
    if not command and (words := _accepting(finding, key, commands)):
        kind, command = CommandKind.ACCEPTS, in_shell(words, commands)
    is_shown = command and len(command) <= _LONGEST and command.isprintable()
    return Cure(command, kind) if is_shown else Cure()


def cure_in(words: str, commands: CommandsConfig) -> Cure:
    """Finds the command in a loader's advice; empty if the advice has none."""
    match = _OF_LOADER.search(words)
    if match is None:
        return Cure()
    command = ["penstock", *shlex.split(match[1])]
    kind = CommandKind.ACCEPTS if "--accept-gap" in command else CommandKind.MENDS
    if command[1:3] == ["schemas", "show"]:
        kind = CommandKind.LOOKS
    return Cure(in_shell(command, commands), kind)


def cure_words(words: str, commands: CommandsConfig, *, short: bool = False) -> str:
    """Completes the commands in a loader's advice with `penstock` and the installation's
    environment, so that a shell can run them. `short`: abbreviates the first command, because it is
    shown beside the advice."""

    def command(match: re.Match[str]) -> str:
        return f"`{in_shell(['penstock', *shlex.split(match[1])], commands)}`"

    if short:
        words = _OF_LOADER.sub(lambda match: f"`penstock {match[1].split()[0]} …`", words, count=1)
    return _OF_LOADER.sub(command, words)


def in_shell(words: list[str], commands: CommandsConfig) -> str:
    """Quotes a command of Penstock for a shell, preceded by the command that reads the
    installation's environment."""
    command = shlex.join(words)
    if not commands.environment:
        return command
    return f". {shlex.quote(commands.environment)} && {command}"


def _rebuilding(
    finding: Finding, key: TopicKey, commands: CommandsConfig, load_advice: Mapping[str, str]
) -> str:
    """The command that rewrites faulty hours from the brokers; empty if their log has lost the
    events, before a load or since, if a rebuild did not mend them, or for a file that no load has
    written."""
    if finding.tier != TierKind.HDFS or finding.kind not in _LANDS:
        return ""
    if finding.reason.startswith((LOG_LOST, PASSED_OVER, REBUILT)):
        return ""
    table, hours = key.topic, list(_hours(finding))
    if finding.is_landed_file:
        match = _LANDED.fullmatch(finding.path)
        if match is None:
            return ""
        table, hours = match[1], [match[2]]
    if not hours:
        return ""
    rebuild = [word for hour in hours for word in ("--rebuild", hour)]
    config_options = _config_options(finding.destination, commands, load_advice)
    load = in_shell(["penstock", "load", *config_options, "--topics", table, *rebuild], commands)
    if _UNKNOWN_FILE in config_options:
        return f"{load}  # FILE: the configuration of the loader of {finding.destination}"
    return load


def _config_options(
    root: str, commands: CommandsConfig, load_advice: Mapping[str, str]
) -> Sequence[str]:
    """The options of this root's loader, as it reports them. Without a report, the configured file
    is used only if no other root is known, because the load might change a table there."""
    load = _OF_LOADER.search(load_advice.get(root, ""))
    typed = shlex.split(load[1]) if load else []
    if "--config" in typed and "--topics" in typed:
        return typed[typed.index("load") + 1 : typed.index("--topics")]
    return ["--config", _UNKNOWN_FILE if load_advice.keys() - {root} else commands.loader]


def _hours(finding: Finding) -> Iterator[str]:
    """The folders of the finding's hours; whole days for many hours, none for too many."""
    if finding.from_time < 0:
        return
    end = max(finding.to_time, finding.from_time + 1)
    step, folder = _HOUR, "dt=%Y-%m-%d/hour=%H"
    if end - finding.from_time > _MOST_HOURS * _HOUR:
        step, folder = _DAY, "dt=%Y-%m-%d"
    steps = range(finding.from_time // step * step, end, step)
    if len(steps) <= _MOST_DAYS:
        for start in steps:
            yield datetime.fromtimestamp(start / 1000, UTC).strftime(folder)


def _accepting(finding: Finding, key: TopicKey, commands: CommandsConfig) -> list[str]:
    """The command that accepts a fault by its most exact names; none without any."""
    if conditions := list(_names(finding)):
        config = ["--config", commands.audit] if commands.audit else []
        scope = [*config, "--cluster", key.cluster, "--topic-id", key.topic_id or "any"]
        return ["penstock", "audit", "accept", key.topic, *scope, *conditions, "--reason", "REASON"]
    return []


def _names(finding: Finding) -> Iterator[str]:
    end = finding.end_position + finding.unseen_end
    if finding.is_landed_file:
        yield from ("--landed-file", finding.landed_file)
    elif finding.source and finding.seq >= 0 and finding.events > 0 and not _is_of_lines(finding):
        last_number = finding.seq + finding.events - 1
        yield from ("--source", finding.source, "--seqs", f"{finding.seq}-{last_number}")
    elif finding.source and finding.position >= 0 and end > finding.position:
        yield from ("--source", finding.source, "--bytes", f"{finding.position}-{end}")
    elif finding.source and finding.position >= 0 and finding.kind is FaultKind.UNKNOWN:
        position = finding.position  # the end is unknown
        yield from ("--source", finding.source, "--bytes", f"{position}-{position + 1}")
    elif finding.partition >= 0 and finding.offset >= 0 and finding.offsets > 0:
        last_number = finding.offset + finding.offsets - 1
        yield from (
            "--partition",
            str(finding.partition),
            "--offsets",
            f"{finding.offset}-{last_number}",
        )
    elif 0 <= finding.from_time < finding.to_time:
        if finding.host:
            yield from ("--host", finding.host)
        yield from ("--from", _time(finding.from_time), "--to", _time(finding.to_time, up=True))


def _is_of_lines(finding: Finding) -> bool:
    """Whether the finding is about lost lines, which have no seqs."""
    return finding.kind is FaultKind.LOST


def _time(millis: int, *, up: bool = False) -> str:
    """A time in the command's form, to the second."""
    seconds = -(-millis // 1000) if up else millis // 1000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
