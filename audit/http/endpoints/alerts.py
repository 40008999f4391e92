"""Handles `/api/v1/alerts`, and operators' notes about alerts: `POST /api/v1/acknowledge`,
`/api/v1/silence` and `/api/v1/unsilence`.

Notes are kept in the data directory (audit/alerting/notes.py), not in the ledger: they decide who
is notified, and change no verdict. Without logins, programs on this machine may send them, as they
may write to the ledger.
"""

import logging
from typing import Any, Final, NamedTuple

import msgspec

from audit.alerting.answers import (
    Acknowledge,
    Mute,
    Noted,
    NotedAlert,
    NotedAlerts,
    ReceiverRow,
    Unmute,
)
from audit.alerting.conditions import KINDS, AlertKey
from audit.alerting.notes import (
    LONGEST_SILENCE_MILLIS,
    Acknowledgement,
    Silence,
    TooManyNotes,
    new_silence_id,
)
from audit.alerting.notices import cure_of, notice_id, severity_of
from audit.api import answers, queries
from audit.cures.program_commands import ProgramCommands
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints import lists
from audit.programs import moment
from audit.service.service import Service, now_millis


def alerts(service: Service, query: queries.AlertsQuery) -> NotedAlerts:
    page, now = lists.alerts(service, query), now_millis()
    commands = ProgramCommands.of(service.config)
    return NotedAlerts(
        page=page.page,
        items=[_noted(service, row, commands, now) for row in page.items],
        waiting=page.waiting,
        waiting_total=page.waiting_total,
        silences=list(service.notes.silences(now)),
        receivers=[ReceiverRow(**row._asdict()) for row in service.receivers.states()],
    )


def _noted(
    service: Service, row: answers.AlertRow, commands: ProgramCommands, now: int
) -> NotedAlert:
    key = AlertKey(row.kind, row.cluster, row.topic, row.host, row.hour)
    group_id = notice_id(key)
    extra_fields: dict[str, Any] = {"id": group_id, "severity": severity_of(row.kind).value}
    if row.resolved < 0:
        extra_fields["acknowledged"] = service.notes.acknowledgement(group_id, now)
        extra_fields["silenced"] = service.notes.silence(key, now)
        if (group := service.alert_groups.get(group_id)) is not None:
            notice = group.notice
            extra_fields |= {"lines": notice.lines, "hosts": notice.hosts}
            extra_fields |= {"hosts_total": notice.hosts_total, "runbook": notice.runbook}
            extra_fields["holds_up"] = notice.holds_up
        if (ending := service.alerts_ending.get(key)) is not None:
            extra_fields["over_since"] = ending.since
            extra_fields["words"] = f"{row.words}; over since {moment(ending.since)}"
        elif group is not None:
            extra_fields |= cure_of(key, service.alert_conditions.get(key), commands).fields
    return NotedAlert(**msgspec.structs.asdict(row) | extra_fields)


log = logging.getLogger(__name__)


class NoteKind(NamedTuple):
    """A path to which notes are posted."""

    path: str
    body_type: type[Acknowledge] | type[Mute] | type[Unmute]
    summary: str


NOTE_KINDS: Final = (
    NoteKind("/api/v1/acknowledge", Acknowledge, "Operators: acknowledge an alert."),
    NoteKind("/api/v1/silence", Mute, "Operators: mute alerts for a time."),
    NoteKind("/api/v1/unsilence", Unmute, "Operators: end a silence."),
)
NOTE_PATHS: Final = frozenset(kind.path for kind in NOTE_KINDS)


def note(service: Service, statement: Acknowledge | Mute | Unmute, by: str) -> Noted:
    """Stores an operator's note in a file. Raises Unanswerable."""
    now = now_millis()
    log.info("alert note kind=%s by=%r note=%r", type(statement).__name__.lower(), by, statement)
    until = getattr(statement, "until", None)
    if until is not None and not now < until <= now + LONGEST_SILENCE_MILLIS:
        raise BadQuery("`until` must be in the future, and within a year")
    try:
        match statement:
            case Acknowledge():
                _acknowledge(service, statement, by, now)
                return Noted(id=statement.id, by=by)
            case Mute():
                return Noted(id=_silence(service, statement, by, now), by=by)
            case Unmute():
                if not service.notes.end_silence(statement.id):
                    raise Unknown(f"no silence has the id {statement.id}")
                return Noted(id=statement.id, by=by)
    except TooManyNotes as error:
        raise NotNow(str(error)) from None
    except OSError as error:
        raise NotNow(f"the note cannot be saved: {error.strerror}") from None


def _acknowledge(service: Service, statement: Acknowledge, by: str, now: int) -> None:
    known_ids = {notice_id(alert.key) for alert in service.alerts_waiting} | {*service.alert_groups}
    if statement.id not in known_ids:
        raise Unknown(f"no current alert has the id {statement.id}: see `penstock alert list`")
    until = -1 if statement.until is None else statement.until
    service.notes.acknowledge(
        Acknowledgement(id=statement.id, by=by, reason=statement.reason, time=now, until=until)
    )


def _silence(service: Service, statement: Mute, by: str, now: int) -> str:
    if statement.kind and statement.kind not in KINDS:
        raise BadQuery(f"`kind` must be one of {', '.join(KINDS)}")
    if not (statement.kind or statement.cluster or statement.topic or statement.host):
        raise BadQuery("give at least one of `kind`, `cluster`, `topic`, `host`")
    conditions = {name: getattr(statement, name) for name in ("kind", "cluster", "topic", "host")}
    id_ = new_silence_id()
    service.notes.add_silence(
        Silence(
            id=id_, **conditions, by=by, reason=statement.reason, time=now, until=statement.until
        )
    )
    return id_
