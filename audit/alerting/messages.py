"""What a webhook gets: JSON, a few alerts at a time, in the order in which they happened. Pure.

Each message can be recognised by its `id`, as one that was not acknowledged is sent again.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from audit.store.rows import Alert

MOST_AT_ONCE: Final = 100


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that began or is over."""

    id: str
    status: Literal["raised", "resolved"]
    kind: str
    cluster: str
    topic: str
    host: str
    hour: int = -1  # of event time, with a fault
    words: str
    raised: int
    resolved: int = -1
    finding: str = ""  # with a fault, the id of the first finding when it was raised


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """The body of one request."""

    version: int = 1
    program: str = "penstock audit"
    alerts: Sequence[AlertMessage]


def untold(alerts: Iterable[Alert]) -> list[tuple[Alert, AlertMessage]]:
    """What is still to be said, the oldest first."""
    found = []
    for each in alerts:
        if not each.told_raised:
            found.append((each, _message(each, "raised")))
        if each.resolved >= 0 and not each.told_resolved:
            found.append((each, _message(each, "resolved")))
    return sorted(found, key=_order)


def _order(pair: tuple[Alert, AlertMessage]) -> tuple[int, bool, int, str, str, str, str]:
    """What happened at the same time by the hour that it is about."""
    said = pair[1]
    when = max(said.raised, said.resolved)
    return (
        when,
        said.status == "resolved",
        said.hour,
        said.cluster,
        said.topic,
        said.kind,
        said.host,
    )


def _message(alert: Alert, status: Literal["raised", "resolved"]) -> AlertMessage:
    named = "\0".join((*alert[:4], str(alert.hour), str(alert.raised)))
    return AlertMessage(
        id=hashlib.sha256(named.encode(errors="replace")).hexdigest()[:24],
        status=status,
        kind=alert.kind,
        cluster=alert.cluster,
        topic=alert.topic,
        host=alert.host,
        hour=alert.hour,
        words=alert.words,
        raised=alert.raised,
        resolved=alert.resolved if status == "resolved" else -1,
        finding=alert.finding,
    )
