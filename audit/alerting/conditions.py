"""What is worth an alert just now, in words; which alerts are raised, and which are resolved. Pure.

One alert is about one kind of fault in one hour of one topic, however many windows have it, about a
table whose loads fail, about a topic that waits, or about one host. It stands until nothing of its
kind is left there: a fault that stays has to be put right, or accepted, and meanwhile hides none of
another hour.

A condition must stand for a while before it is raised, so that what puts itself right is not told.
It is resolved as soon as it is gone. No more stand at a time than can be kept: others wait until
there is room. Since when a condition stands is not kept over a restart, but what is raised is:
nothing is raised twice, and what ended meanwhile is resolved.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from audit.answers import AgentRow, FailingLoad
from audit.findings import State
from audit.judged_hours import HourVerdict
from audit.picture import TopicKey
from audit.store.rows import Alert

LATE: Final = "late"
SILENT: Final = "silent"
UNLOADED: Final = "unloaded"
FAULTS: Final = (State.UNKNOWN, State.MISSING, State.DUPLICATED, State.CHANGED)
KINDS: Final = (*(each.value for each in FAULTS), UNLOADED, LATE, SILENT)

_LONGEST_WORDS: Final = 1_000


class AlertKey(NamedTuple):
    """What an alert is about."""

    kind: str
    cluster: str
    topic: str
    host: str
    hour: int = -1  # of event time, with a fault


Conditions = Mapping[AlertKey, str]
_NONE: Final[Mapping[AlertKey, str]] = {}


def of_hours(
    hours: Iterable[HourVerdict],
    as_of: Mapping[str, int],
    late_millis: int,
    *,
    is_gone: Callable[[TopicKey], bool],
) -> dict[AlertKey, str]:
    """Faults, and windows that wait too long; `as_of` is how far each cluster's ledger was read. A
    topic that was deleted waits for nobody."""
    found: dict[AlertKey, str] = {}
    late: dict[TopicKey, HourVerdict] = {}
    for each in hours:
        key = each.judged.key
        for state, words in each.faults.items():
            about = AlertKey(state.value, key.cluster, key.topic, "", each.judged.hour)
            found.setdefault(about, _fault(about, words))
        overdue = as_of.get(key.cluster, 0) - late_millis
        if 0 <= each.pending_since <= overdue and not is_gone(key):
            oldest = late.get(key)
            if oldest is None or each.pending_since < oldest.pending_since:
                late[key] = each
    for key, each in late.items():
        waits = each.judged.waits or "what is still to come"
        found[AlertKey(LATE, key.cluster, key.topic, "")] = _short(
            f"{key.cluster}/{key.topic} has been waiting since {_moment(each.pending_since)} for "
            f"{waits}"
        )
    return found


def findings_of(hours: Iterable[HourVerdict]) -> dict[AlertKey, str]:
    """The id of the first finding of each fault."""
    found: dict[AlertKey, str] = {}
    for each in hours:
        cluster, topic, _ = each.judged.key
        for state, finding in each.first.items():
            about = AlertKey(state.value, cluster, topic, "", each.judged.hour)
            found.setdefault(about, finding)
    return found


def of_loads(rows: Iterable[FailingLoad]) -> dict[AlertKey, str]:
    """Tables whose loads fail, whatever the destination: the first of it is told."""
    found: dict[AlertKey, str] = {}
    for each in rows:
        found.setdefault(AlertKey(UNLOADED, each.cluster, each.topic, ""), _short(_unloaded(each)))
    return found


def of_agents(rows: Iterable[AgentRow]) -> dict[AlertKey, str]:
    """Agents that are silent, and hosts that were never heard."""
    return {AlertKey(SILENT, each.cluster, "", each.host): _short(_silence(each)) for each in rows}


def _fault(about: AlertKey, words: str) -> str:
    where = f"{about.cluster}/{about.topic}"
    when = f"in the hour {_moment(about.hour)}"
    if about.kind == State.UNKNOWN:
        return _short(f"it is unknown whether all events of {where} {when} have arrived: {words}")
    return _short(f"{where} has {about.kind} events {when}: {words}")


def _unloaded(load: FailingLoad) -> str:
    said = (
        f"{load.cluster}/{load.topic} has not been loaded into {load.destination} since "
        f"{_moment(load.since)}: {load.reason}"
    )
    return f"{said}. What to do: {load.cure}" if load.cure else said


def _silence(row: AgentRow) -> str:
    if row.heard <= 0:
        return f"{row.host} is in the inventory, and was never heard"
    return f"{row.host} (agent {row.agent}) was last heard at {_moment(row.heard)}"


def _moment(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%dT%H:%M}Z"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_WORDS else f"{text[: _LONGEST_WORDS - 1]}…"


MOST_RAISED: Final = 20_000  # a week of a hundred topics, each hour with one kind of fault


class Decided(msgspec.Struct, frozen=True):
    """`changed` are new alerts, and known ones that are over."""

    changed: tuple[Alert, ...]
    since: Mapping[AlertKey, int]  # of conditions that stand and are not raised


class WaitingCondition(NamedTuple):
    """A condition that is not raised yet, as it may still put itself right."""

    key: AlertKey
    words: str
    since: int
    due: int  # when it is raised, if it stands until then


def decide(
    conditions: Conditions,
    raised: Mapping[AlertKey, Alert],
    since: Mapping[AlertKey, int],
    *,
    now: int,
    after: Mapping[str, int],
    findings: Mapping[AlertKey, str] = _NONE,
    most: int = MOST_RAISED,
) -> Decided:
    """`raised` are those that are not resolved; `after` says by kind how long to wait. `findings`:
    see `findings_of`."""
    room = most - len(raised)
    waiting: dict[AlertKey, int] = {}
    changed: list[Alert] = []
    for key, words in conditions.items():
        if key in raised:
            continue
        began = since.get(key, now)
        if now - began >= after.get(key.kind, 0) and len(changed) < room:
            changed.append(_raised(key, words, now, findings.get(key, "")))
        else:
            waiting[key] = began
    changed += [
        each._replace(resolved=now) for key, each in raised.items() if key not in conditions
    ]
    return Decided(tuple(changed), waiting)


def waiting(
    conditions: Conditions, since: Mapping[AlertKey, int], after: Mapping[str, int]
) -> tuple[WaitingCondition, ...]:
    """What is due first comes first."""
    found = [
        WaitingCondition(key, conditions[key], began, began + after.get(key.kind, 0))
        for key, began in since.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.due, each.key)))


def key_of(alert: Alert) -> AlertKey:
    return AlertKey(alert.kind, alert.cluster, alert.topic, alert.host, alert.hour)


def _raised(key: AlertKey, words: str, now: int, finding: str) -> Alert:
    kind, cluster, topic, host, hour = key
    return Alert(kind, cluster, topic, host, words, now, hour=hour, finding=finding)
