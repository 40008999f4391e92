"""Notices, which are the messages for receivers: one for all open alerts of a kind and topic. Pure.

So a rack of silent hosts, or a day of hours with missing lines, is one message with a list. `id`
identifies kind, cluster and topic, and is the same for the next such problem. Names from outside
are made printable, and all lengths are capped.
"""

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from audit.alerting.conditions import (
    AWAY,
    FAULTS,
    SILENT,
    AlertKey,
    Condition,
    Conditions,
    key_of,
)
from audit.configuration.receivers import Severity
from audit.cures.fault_cures import ARRIVED, Cure
from audit.cures.program_commands import ProgramCommands
from audit.programs import CERTIFICATE, DISK, INPUTS, LOADER, MIRROR, ZOOKEEPER
from audit.reconciling.findings import CommandKind
from audit.reconciling.words import count
from audit.store.rows import Alert
from ground.printable import one_line

MOST_NOTICES: Final = 1_000
MOST_HOSTS: Final = 20  # named in a notice
_MOST_MEMBERS: Final = 5_000
_MOST_WORDS: Final = 3  # alerts whose words are in a notice
_LONGEST: Final = 300  # letters of a name
_LONGEST_VIEW: Final = 1_000  # letters
_LONGEST_COMMAND: Final = 1_000  # a rebuild of many hours can be longer
_HOUR: Final = 3_600_000
_ID_DIGITS: Final = 12
# Effects of commands, in words.
_EFFECTS: Final = {
    CommandKind.MENDS: "mends it",
    CommandKind.ACCEPTS: "accepts the loss: only if no copy can be shipped again",
    CommandKind.LOOKS: "shows more",
}
_OF_PROGRAMS: Final = frozenset({AWAY, MIRROR, LOADER, ZOOKEEPER, CERTIFICATE, DISK, INPUTS})

# By kind: the severity, the words, and the command of Penstock that shows it.
_REPORT: Final = "penstock report {topic}"  # with the time of the fault
_KINDS: Final[Mapping[str, tuple[Severity, str, str]]] = {
    "missing": (Severity.CRITICAL, "lines are missing", _REPORT),
    "changed": (Severity.CRITICAL, "lines are not as they were written", _REPORT),
    "duplicated": (Severity.WARNING, "lines are duplicated", _REPORT),
    "unknown": (Severity.WARNING, "it is unknown whether all lines arrived", _REPORT),
    "unloaded": (Severity.CRITICAL, "its table cannot be loaded", ""),
    "late": (Severity.WARNING, "windows still wait", _REPORT),
    "silent": (Severity.WARNING, "agents are silent", ""),
    "dead": (
        Severity.WARNING,
        "many lines are dead letters",
        "penstock consume {topic}.dead --from beginning --to-end --events",
    ),
    "altered": (Severity.INFO, "many lines were altered", _REPORT),
    "away": (Severity.CRITICAL, "the ledger cannot be read", ""),
    "clock": (Severity.WARNING, "clocks of hosts are wrong", ""),
    "signatures": (
        Severity.CRITICAL,
        "statements are not signed as they must be",
        "penstock audit keys",
    ),
    "mirror": (Severity.CRITICAL, "a mirror is away", "penstock mirror status"),
    "loader": (Severity.WARNING, "loads have stopped", ""),
    "zookeeper": (Severity.CRITICAL, "ZooKeeper is not reached or incomplete", ""),
    "certificate": (Severity.WARNING, "certificates expire soon", ""),
    "disk": (Severity.CRITICAL, "disks are full or nearly full", ""),
    "inputs": (Severity.WARNING, "agents do not read all of their inputs", ""),
    "test": (Severity.INFO, "this is a test", ""),
}


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message for receivers. Times are milliseconds since 1970 UTC. `hosts` has the first of
    `hosts_total` hosts. -1 in `lines` and `began` means unknown. `lost_bytes` counts bytes whose
    number of lines is unknown."""

    id: str
    status: Literal["raised", "resolved"] = "raised"
    severity: Severity
    kind: str
    cluster: str
    topic: str
    hosts: tuple[str, ...] = ()
    hosts_total: int = 0
    lines: int = -1
    lost_bytes: int = 0
    began: int = -1  # the earliest time that the fault may be about
    since: int  # when it began, or was raised
    resolved: int = -1
    ending: str = ""  # once resolved: whether a fault was mended, or what was accepted
    summary: str
    words: tuple[str, ...] = ()
    holds_up: str = ""  # its consequences
    command: str = ""
    command_kind: CommandKind | None = None
    page: str = ""
    runbook: str = ""
    report: str = ""  # the command that shows how it ended

    def over(self, now: int, ending: str = "mended or accepted") -> "Notice":
        """Returns the notice as resolved. Its command shows how the fault ended."""
        notice = replace(self, status="resolved", resolved=now, holds_up="", command=self.report)
        kind = CommandKind.LOOKS if self.report else None
        return replace(notice, command_kind=kind, ending=ending if self.is_of_lines else "")

    @property
    def title(self) -> str:
        """One line with the severity or, once resolved, the outcome."""
        if self.status == "resolved":
            duration = duration_text(self.resolved - self.since)
            ending = f", {self.ending}" if self.ending else ""
            return f"Resolved after {duration}{ending}: {self.summary}"
        return f"{self.severity.capitalize()}: {self.summary}"

    @property
    def is_of_lines(self) -> bool:
        """Whether the notice is about a fault in lines, which ends by repair or acceptance."""
        return self.kind in FAULTS

    @property
    def _effect(self) -> str:
        if self.command_kind is CommandKind.ACCEPTS and self.kind in ARRIVED:
            return "accepts it: only if it cannot be repaired"
        return _EFFECTS[self.command_kind] if self.command_kind else ""

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yields labelled facts for a reader, the most important first."""
        yield "Severity", self.severity.value
        if self.topic:
            yield "Topic", f"{self.cluster}/{self.topic}"
        elif self.cluster:
            yield "Cluster", self.cluster
        if self.hosts:
            hidden_hosts = self.hosts_total - len(self.hosts)
            suffix = f" and {hidden_hosts:,} more" if hidden_hosts else ""
            unit = "Program" if self.kind == AWAY else "Host"
            label = unit if self.hosts_total == 1 else f"{unit}s"
            yield label, f"{', '.join(self.hosts)}{suffix}"
        yield "Lines", f"{self.lines:,}" if self.lines >= 0 else "not known"
        if self.lost_bytes:
            yield "Lost bytes", f"{self.lost_bytes:,}"
        if self.began >= 0:
            yield "Happened", time_text(self.began)
        yield "Since", time_text(self.since)
        if self.resolved >= 0:
            duration = duration_text(self.resolved - self.since)
            yield "Resolved", f"{time_text(self.resolved)}, after {duration}"
        elif self.holds_up:
            yield "Holds up", self.holds_up
        for label, value in (
            ("Command", self.command),
            ("Effect", self._effect),
            ("Page", self.page),
            ("Runbook", self.runbook),
        ):
            if value:
                yield label, value
        yield "Alert", self.id


class Group(msgspec.Struct, frozen=True):
    """A notice, and short digests of its alerts. A new alert makes the notice due again."""

    notice: Notice
    members: frozenset[int]
    muted: bool = False  # silenced, or acknowledged


def notice_id(about: AlertKey) -> str:
    # Brokers that are away are one notice, and a registry another.
    program = about.host.partition(" ")[0] if about.kind == AWAY else ""
    identity = "\0".join((about.kind, about.cluster, about.topic or program))
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:_ID_DIGITS]


def severity_of(kind: str) -> Severity:
    return _KINDS[kind][0]


def groups_of(
    alerts: Iterable[Alert],
    conditions: Conditions,
    commands: ProgramCommands,
    *,
    page: str,
    runbook: str,
) -> dict[str, Group]:
    """Groups the current alerts by the id of their notice, the most urgent and oldest first."""
    by_id: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_id[notice_id(key_of(alert))].append(alert)
    groups = [
        _group(name, members, conditions, commands, page=page, runbook=runbook)
        for name, members in by_id.items()
    ]
    order = list(Severity)
    groups.sort(key=lambda group: (order.index(group.notice.severity), group.notice.since))
    return {group.notice.id: group for group in groups[:MOST_NOTICES]}


def _group(
    name: str,
    alerts: list[Alert],
    conditions: Conditions,
    commands: ProgramCommands,
    *,
    page: str,
    runbook: str,
) -> Group:
    alerts.sort(key=lambda alert: (alert.hour, alert.host, alert.raised))
    first_alert = alerts[0]
    own_conditions = [conditions.get(key_of(alert), Condition(alert.words)) for alert in alerts]
    hosts = sorted(
        {
            _name(host)
            for alert, condition in zip(alerts, own_conditions, strict=True)
            for host in condition.hosts or ((alert.host,) if alert.host else ())
        }
    )
    counts = [condition.lines for condition in own_conditions if condition.lines >= 0]
    lines = sum(counts) if counts else -1
    lost_bytes = sum(condition.lost_bytes for condition in own_conditions)
    severity = severity_of(first_alert.kind)
    since = min(alert.since if alert.since >= 0 else alert.raised for alert in alerts)
    begin = since if first_alert.hour < 0 else first_alert.hour
    return Group(
        Notice(
            id=name,
            severity=severity,
            kind=first_alert.kind,
            cluster=_name(first_alert.cluster),
            topic=_name(first_alert.topic),
            hosts=tuple(hosts[:MOST_HOSTS]),
            hosts_total=len(hosts),
            lines=lines,
            lost_bytes=lost_bytes,
            began=min(
                (condition.began for condition in own_conditions if condition.began >= 0),
                default=-1,
            ),
            since=since,
            summary=_summary(first_alert, alerts, hosts, lines, lost_bytes),
            words=tuple(one_line(condition.words) for condition in own_conditions[:_MOST_WORDS]),
            **cure_of(key_of(first_alert), own_conditions[0], commands).fields,
            page=page and page + _view(first_alert, alerts),
            runbook=runbook and f"{runbook}#{first_alert.kind}",
            report=_report(first_alert.topic, begin, commands) if first_alert.topic else "",
        ),
        frozenset(
            zlib.crc32(f"{alert.host}\0{alert.hour}".encode(errors="replace"))
            for alert in alerts[:_MOST_MEMBERS]
        ),
    )


def _summary(
    first: Alert, alerts: list[Alert], hosts: list[str], lines: int, lost_bytes: int
) -> str:
    subject = _KINDS[first.kind][1]
    name = _name(first.topic or first.cluster)
    details = []
    if lines >= 0:
        details.append(count(lines, "line"))
    if lost_bytes:
        details.append(count(lost_bytes, "lost byte"))
    more_hosts = len(hosts) - 1
    if hosts and first.kind == AWAY:
        names = f"{hosts[0]} and {more_hosts:,} more" if more_hosts > 1 else " and ".join(hosts)
        subject = f"{names} {'are' if more_hosts else 'is'} away"
    elif hosts:
        details.append(
            f"{hosts[0]} and {more_hosts:,} more hosts" if more_hosts > 1 else ", ".join(hosts)
        )
    hours = len({alert.hour for alert in alerts if alert.hour >= 0})
    if hours > 1:
        details.append(f"{hours:,} hours")
    return (f"{name}: {subject}" if name else subject) + (
        f" ({', '.join(details)})" if details else ""
    )


def cure_of(about: AlertKey, condition: Condition | None, commands: ProgramCommands) -> Cure:
    """Returns the cure of the worst finding; without one, the usual command for such an alert."""
    if condition is not None and 0 < len(condition.cure.command) <= _LONGEST_COMMAND:
        return condition.cure
    cluster, host = about.cluster, _name(about.host)
    match about.kind, host.split():
        case "away", ["broker", number] if number.isdecimal():
            return commands.restart("broker", cluster=cluster, broker=int(number))
        case "away", ["registry"]:
            return commands.restart("registry", cluster=cluster)
        case "away", _:
            return commands.reach_ledger(cluster)
        case "silent", _:
            return commands.restart("agent", host=host)
        case "clock", _:
            return commands.set_clock(host)
        case "zookeeper", _:
            return commands.reach_zookeeper()
    template = _KINDS[about.kind][2]
    words = [word.format(topic=_name(about.topic)) for word in template.split()]
    if template == _REPORT and about.hour >= 0:
        words += ["--hour", _hour(about.hour)]
    elif template == _REPORT:  # it began some time ago, and goes on
        words += ["--day", "today"]
    return commands.look(*words) if words else Cure()


def _report(topic: str, begin: int, commands: ProgramCommands) -> str:
    """From the hour in which it began up to now: without a time only whole hours are covered."""
    return commands.look("penstock", "report", _name(topic), "--from", _hour(begin)).command


def _hour(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%dT%H}"


def _view(first: Alert, alerts: list[Alert]) -> str:
    """The part of the page's URL that shows it."""
    if not first.topic:
        if first.kind == SILENT:
            return "/#/agents?state=silent"
        return "/#/health" if first.kind in _OF_PROGRAMS else "/#/alerts"
    query = {"topic": first.topic, "cluster": first.cluster}
    if first.hour >= 0:
        end = max(alert.hour for alert in alerts) + _HOUR
        query |= {"from": str(first.hour), "to": str(end)}
    view = f"/#/topic?{urlencode(query, quote_via=quote, errors='replace')}"
    return view if len(view) <= _LONGEST_VIEW else "/#/alerts"


def _name(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def time_text(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration_text(millis: int) -> str:
    """Formats a duration in its two largest units: `2 h 5 min`."""
    seconds = max(0, millis) // 1000
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def trial_notice(now: int, *, page: str, runbook: str) -> Notice:
    """Makes the notice that `penstock alert test` sends."""
    return Notice(
        id="penstock-test",
        severity=Severity.INFO,
        kind="test",
        cluster="test",
        topic="test",
        hosts=("web-1",),
        hosts_total=1,
        lines=0,
        since=now,
        summary="this is a test: alerts of this audit arrive here",
        words=("Nothing is wrong: `penstock alert test` sent this.",),
        command="penstock report",
        command_kind=CommandKind.LOOKS,
        page=page,
        runbook=runbook,
    )
