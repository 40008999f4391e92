"""The JSON of `/api/v1/alerts`, and of operators' notes about alerts."""

from typing import Annotated

import msgspec
from msgspec import Meta

from audit.alerting.notes import Acknowledgement, Silence
from audit.api import answers
from audit.reconciling.findings import CommandKind

Pattern = Annotated[str, Meta(max_length=500)]
Time = Annotated[int, Meta(ge=0, lt=2**53)]
Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\S")]
Who = Annotated[str, Meta(max_length=200)]


class NotedAlert(answers.AlertRow, frozen=True, kw_only=True):
    """An alert with its notice. The notice with this `id` covers all alerts of the same kind,
    cluster and topic; `hosts` and `lines` are the totals of those alerts."""

    id: str
    severity: str
    lines: int = -1
    hosts: tuple[str, ...] = ()
    hosts_total: int = 0
    holds_up: str = ""  # its consequences
    over_since: int = -1  # its condition is gone: resolved later, unless that comes back
    command: str = ""
    command_kind: CommandKind | None = None
    runbook: str = ""
    acknowledged: Acknowledgement | None = None
    silenced: Silence | None = None


class ReceiverRow(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver's counts since the audit started. `trouble` is the reason why it does not accept
    alerts at present; empty if it does."""

    name: str
    kind: str
    sent: int
    failed: int
    trouble: str = ""


class NotedAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/api/v1/alerts?state&page&size`."""

    page: answers.ListPage
    items: list[NotedAlert]
    waiting: list[answers.WaitingAlert] = []  # the first due first; a hundred at most
    waiting_total: int = 0
    silences: list[Silence] = []  # current ones
    receivers: list[ReceiverRow] = []


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledges an alert: receivers get no more messages about it until it is resolved, or until
    the given time."""

    id: Annotated[str, Meta(max_length=16)]
    reason: Reason
    until: Time | None = None
    by: Who = ""  # ignored where users log in


class Mute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Silences the alerts that match all given fields, until the given time. `topic` and `host` are
    patterns with `*` and `?`."""

    kind: Annotated[str, Meta(max_length=20)] = ""
    cluster: Pattern = ""
    topic: Pattern = ""
    host: Pattern = ""
    reason: Reason
    until: Time
    by: Who = ""


class Unmute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ends a silence."""

    id: Annotated[str, Meta(max_length=16)]
    by: Who = ""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Confirms a note: the id of the alert or silence, and the note's author."""

    id: str
    by: str
