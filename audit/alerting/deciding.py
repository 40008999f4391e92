"""Which alerts are raised, and which are resolved. Pure.

A condition must stand for a while before it is raised, so that what puts itself right is not told.
It is resolved as soon as it is gone. No more stand at a time than can be kept: others wait until
there is room. Since when a condition stands is not kept over a restart, but
what is raised is: nothing is raised twice, and what ended meanwhile is resolved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from audit.alerting.conditions import AlertKey, Conditions
from audit.store.rows import Alert

MOST_RAISED: Final = 20_000  # a week of a hundred topics, each hour with one kind of fault


@dataclass(frozen=True, slots=True)
class Decided:
    """`changed` are new alerts, and known ones that are over."""

    changed: tuple[Alert, ...]
    since: Mapping[AlertKey, int]  # of conditions that stand and are not raised


class Waiting(NamedTuple):
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
    most: int = MOST_RAISED,
) -> Decided:
    """`raised` are those that are not resolved; `after` says by kind how long to wait."""
    room = most - len(raised)
    waiting: dict[AlertKey, int] = {}
    changed: list[Alert] = []
    for key, words in conditions.items():
        if key in raised:
            continue
        began = since.get(key, now)
        if now - began >= after.get(key.kind, 0) and len(changed) < room:
            changed.append(_raised(key, words, now))
        else:
            waiting[key] = began
    changed += [
        each._replace(resolved=now) for key, each in raised.items() if key not in conditions
    ]
    return Decided(tuple(changed), waiting)


def waiting(
    conditions: Conditions, since: Mapping[AlertKey, int], after: Mapping[str, int]
) -> tuple[Waiting, ...]:
    """What is due first comes first."""
    found = [
        Waiting(key, conditions[key], began, began + after.get(key.kind, 0))
        for key, began in since.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.due, each.key)))


def key_of(alert: Alert) -> AlertKey:
    return AlertKey(alert.kind, alert.cluster, alert.topic, alert.host, alert.hour)


def _raised(key: AlertKey, words: str, now: int) -> Alert:
    kind, cluster, topic, host, hour = key
    return Alert(kind, cluster, topic, host, words, now, hour=hour)
