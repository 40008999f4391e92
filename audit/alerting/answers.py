"""The JSON of `/api/v1/alerts`, and of what operators say about alerts."""

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
    """With what receivers are told: the notice with this `id` is about all alerts of its kind,
    cluster and topic, and its `hosts` and `lines` are theirs."""

    id: str
    severity: str
    lines: int = -1
    hosts: tuple[str, ...] = ()
    hosts_total: int = 0
    holds_up: str = ""  # what it keeps from happening
    command: str = ""
    command_kind: CommandKind | None = None
    runbook: str = ""
    acknowledged: Acknowledgement | None = None
    silenced: Silence | None = None


class ReceiverRow(msgspec.Struct, frozen=True, kw_only=True):
    """Since the start of the audit. `trouble` says why it does not take alerts just now."""

    name: str
    kind: str
    sent: int
    failed: int
    trouble: str = ""


class NotedAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """`/api/v1/alerts?state&page&size`"""

    page: answers.ListPage
    items: list[NotedAlert]
    waiting: list[answers.WaitingAlert] = []  # what is due first; a hundred at most
    waiting_total: int = 0
    silences: list[Silence] = []  # that have not ended
    receivers: list[ReceiverRow] = []


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody knows of it: receivers hear no more of it until it is resolved, or until a time."""

    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{12}$")]
    reason: Reason
    until: Time | None = None
    by: Who = ""  # ignored where users log in


class Mute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Receivers hear nothing of alerts that match all that is given, until a time. `topic` and
    `host` may have `*` and `?`."""

    kind: Annotated[str, Meta(max_length=20)] = ""
    cluster: Pattern = ""
    topic: Pattern = ""
    host: Pattern = ""
    reason: Reason
    until: Time
    by: Who = ""


class Unmute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a silence."""

    id: Annotated[str, Meta(max_length=16)]
    by: Who = ""


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept now: the id of the alert or silence, and who said it."""

    id: str
    by: str
