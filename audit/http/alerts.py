"""Alerts over HTTP: `/api/v1/alerts` with what is known of each, and what operators say about them:
`POST /api/v1/acknowledge`, `/api/v1/silence` and `/api/v1/unsilence`.

The latter are kept in the data directory (audit/alerting/notes.py), not in the ledger: they are
about who is told, and change no verdict. Without logins, programs on this machine may send them, as
they may write to the ledger.
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
from audit.http import lists
from audit.service.service import Service, now_millis


def alerts(service: Service, query: queries.AlertsQuery) -> NotedAlerts:
    found, now = lists.alerts(service, query), now_millis()
    return NotedAlerts(
        page=found.page,
        items=[_noted(service, each, now) for each in found.items],
        waiting=found.waiting,
        waiting_total=found.waiting_total,
        silences=list(service.notes.silences(now)),
        receivers=[ReceiverRow(**each._asdict()) for each in service.receivers.states()],
    )


def _noted(service: Service, row: answers.AlertRow, now: int) -> NotedAlert:
    about = AlertKey(row.kind, row.cluster, row.topic, row.host, row.hour)
    name = notice_id(about)
    more: dict[str, Any] = {"id": name, "severity": severity_of(row.kind).value}
    if row.resolved < 0:
        more["acknowledged"] = service.notes.acknowledgement(name, now)
        more["silenced"] = service.notes.silence(about, now)
        if (group := service.alert_groups.get(name)) is not None:
            notice = group.notice
            more |= {"lines": notice.lines, "hosts": notice.hosts}
            more |= {"hosts_total": notice.hosts_total, "runbook": notice.runbook}
            more["holds_up"] = notice.holds_up
            commands = ProgramCommands.of(service.config)
            more |= cure_of(about, service.alert_conditions.get(about), commands).fields
    return NotedAlert(**msgspec.structs.asdict(row), **more)


log = logging.getLogger(__name__)


class NoteKind(NamedTuple):
    """One path."""

    path: str
    asked: type[Acknowledge] | type[Mute] | type[Unmute]
    summary: str


NOTE_KINDS: Final = (
    NoteKind("/api/v1/acknowledge", Acknowledge, "Operators: acknowledge an alert."),
    NoteKind("/api/v1/silence", Mute, "Operators: mute alerts for a time."),
    NoteKind("/api/v1/unsilence", Unmute, "Operators: end a silence."),
)
NOTE_PATHS: Final = frozenset(each.path for each in NOTE_KINDS)


def note(service: Service, said: Acknowledge | Mute | Unmute, by: str) -> Noted:
    """Writes a file. Raises Unanswerable."""
    now = now_millis()
    log.info("alerts: %s by=%r said=%r", type(said).__name__.lower(), by, said)
    until = getattr(said, "until", None)
    if until is not None and not now < until <= now + LONGEST_SILENCE_MILLIS:
        raise BadQuery("`until` must be in the future, and within a year")
    try:
        match said:
            case Acknowledge():
                _acknowledge(service, said, by, now)
                return Noted(id=said.id, by=by)
            case Mute():
                return Noted(id=_silence(service, said, by, now), by=by)
            case Unmute():
                if not service.notes.end_silence(said.id):
                    raise Unknown(f"there is no silence {said.id}")
                return Noted(id=said.id, by=by)
    except TooManyNotes as error:
        raise NotNow(str(error)) from None
    except OSError as error:
        raise NotNow(f"it cannot be kept: {error.strerror}") from None


def _acknowledge(service: Service, said: Acknowledge, by: str, now: int) -> None:
    known = {notice_id(each.key) for each in service.alerts_waiting} | {*service.alert_groups}
    if said.id not in known:
        raise Unknown(f"no alert {said.id} is raised: `/api/v1/alerts` lists all")
    until = -1 if said.until is None else said.until
    service.notes.acknowledge(
        Acknowledgement(id=said.id, by=by, reason=said.reason, time=now, until=until)
    )


def _silence(service: Service, said: Mute, by: str, now: int) -> str:
    if said.kind and said.kind not in KINDS:
        raise BadQuery(f"`kind` must be one of {', '.join(KINDS)}")
    if not (said.kind or said.cluster or said.topic or said.host):
        raise BadQuery("say what is silenced: kind, cluster, topic or host")
    matched = {name: getattr(said, name) for name in ("kind", "cluster", "topic", "host")}
    name = new_silence_id()
    service.notes.add_silence(
        Silence(id=name, **matched, by=by, reason=said.reason, time=now, until=said.until)
    )
    return name
