"""Causes and consequences: an alert can be the cause of others, which are held back while it lasts.
Pure.

Rule 1: a table has the consequences of each cause, with the reason. All other conditions are raised
        as usual: a missing line, altered text, a disk, a clock.
Rule 2: while a cause lasts, its consequences are not raised. Those raised before stay raised.
Rule 3: when a cause is over, its consequences have a grace to recover. The grace restarts each time
        that some of them do, up to `MOST_GRACES` graces in all. Then the rest is raised. Conditions
        that began after the cause was over are not held back.
Rule 4: an intermittent cause that is never raised itself holds nothing back beyond these graces.

A cause that follows from another one is ignored: the table gives the other one all of its
consequences, too.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from audit.alerting.conditions import (
    AWAY,
    CLOCK,
    FOR_SCHEMAS,
    LATE,
    REGISTRY,
    SILENT,
    UNLOADED,
    AlertKey,
    Condition,
    Conditions,
    key_of,
)
from audit.programs import DISK, LOADER, MIRROR, ZOOKEEPER, moment
from audit.reconciling.picture import TierKind
from audit.reconciling.window_sums import LEDGER
from audit.store.rows import Alert, LoadEnd
from ledger.names import LEDGER_TOPIC

LEAST_GRACE: Final = 5 * 60_000  # milliseconds
MOST_GRACES: Final = 3
_HEARD_BEFORE: Final = 3 * 60_000  # a cause is noticed some time after it began

_HDFS: Final = frozenset({TierKind.HDFS.value})
_COPY: Final = frozenset({TierKind.ORIGIN.value, TierKind.MIRROR.value})
_HEARD: Final = "a program that cannot write to the ledger is not heard"
_NO_LEADER: Final = "a partition without a leader can be neither written nor read"


class Consequence(NamedTuple):
    """Alerts of one kind that follow from a cause, in the same cluster."""

    kind: str
    why: str
    waits_on: frozenset[str] = frozenset()  # only conditions that wait for nothing else; empty: all


# By the name of the cause. A row includes the consequences of its consequences.
TABLE: Final[Mapping[str, tuple[Consequence, ...]]] = {
    "broker": (  # for topics without a leader only; for all if the ledger has none
        Consequence(UNLOADED, _NO_LEADER),
        Consequence(LATE, _NO_LEADER),
        Consequence(SILENT, _HEARD),
        Consequence(LOADER, _HEARD),
        Consequence(MIRROR, _HEARD),
        Consequence(AWAY, "the ledger has a partition without a leader"),
    ),
    "registry": (
        Consequence(UNLOADED, "a load needs the schemas of its topics"),
        Consequence(LOADER, "a load reports its start with the ledger's schema"),
        Consequence(LATE, "rows are loaded once the registry answers", _HDFS),
        Consequence(AWAY, "reading the ledger needs its schemas", FOR_SCHEMAS),
    ),
    "ledger": (
        Consequence(SILENT, "the audit may only have to catch up"),
        Consequence(LOADER, _HEARD),
        Consequence(MIRROR, _HEARD),
        Consequence(LATE, "unreachable brokers neither take nor return lines"),
        Consequence(UNLOADED, "unreachable brokers neither take nor return lines"),
    ),
    "zookeeper": (
        Consequence(UNLOADED, _NO_LEADER),
        Consequence(LATE, _NO_LEADER),
        Consequence(SILENT, _HEARD),
        Consequence(LOADER, _HEARD),
        Consequence(MIRROR, _HEARD),
    ),
    "agents": (
        Consequence(LOADER, "if no agent is heard, brokers may take no lines"),
        Consequence(MIRROR, "if no agent is heard, brokers may take no lines"),
        Consequence(LATE, "windows wait for their agents"),
        Consequence(UNLOADED, "if no agent is heard, brokers may take no lines"),
    ),
    "clock": (  # for topics that wait for its host only
        Consequence(LATE, "an agent reports its progress by the clock of its host"),
    ),
    "mirror": (Consequence(LATE, "a copy waits for the mirror", _COPY),),
    "loader": (
        Consequence(UNLOADED, "no load, no rows"),
        Consequence(LATE, "windows wait for their rows", _HDFS),
    ),
}
CONSEQUENCES: Final = frozenset(entry.kind for row in TABLE.values() for entry in row)


def cause_of(key: AlertKey, condition: Condition) -> str:
    """Returns a condition's name in the table of causes; empty if the condition is not a cause."""
    if key.kind == DISK:  # a broker's, which is full
        return "broker" if condition.leaderless else ""
    if key.kind == AWAY:
        return {"": "ledger", REGISTRY: "registry"}.get(key.host, "broker")
    if key.kind == ZOOKEEPER:  # of a broker: some servers may be away without consequences
        return "zookeeper" if key.host else ""
    if key.kind == SILENT:
        return "agents" if condition.of_all else ""
    return key.kind if key.kind in {CLOCK, MIRROR, LOADER} else ""


class Cause(msgspec.Struct, frozen=True):
    """A current cause, or one that ended recently. Times are milliseconds since 1970."""

    condition: Condition
    since: int
    is_raised: bool = False  # or was
    over: int = -1
    better: int = -1  # when consequences last recovered
    left: Mapping[AlertKey, int] = {}  # current consequences, with their beginnings

    def ends(self, grace: int) -> int:
        """The time at which the cause stops holding back its consequences; -1 while it lasts."""
        if self.over < 0 and self.is_raised:
            return -1
        latest_end = (self.over if self.is_raised else self.since) + MOST_GRACES * grace
        return latest_end if self.over < 0 else min(latest_end, max(self.over, self.better) + grace)


Causes = Mapping[AlertKey, Cause]


def known_before(resolved: Iterable[Alert]) -> dict[AlertKey, Cause]:
    """Returns causes that ended before this process started. Leaderless topics are not stored, so
    all topics are assumed to have been leaderless."""
    causes: dict[AlertKey, Cause] = {}
    for alert in resolved:
        leaderless = frozenset({LEDGER_TOPIC} if alert.kind == AWAY else ())
        condition = Condition(alert.words, leaderless=leaderless)
        key = key_of(alert)
        earlier_cause = causes.get(key)
        if cause_of(key, condition) and (
            earlier_cause is None or earlier_cause.over < alert.resolved
        ):
            causes[key] = Cause(condition, alert.since, is_raised=True, over=alert.resolved)
    return causes


class Held(msgspec.Struct, frozen=True):
    """Conditions that are held back, with their causes."""

    causes: Causes = {}
    by: Mapping[AlertKey, AlertKey] = {}  # causes by consequence

    def until(self, key: AlertKey, grace: int) -> int:
        """The time from which a condition may be raised: 0 if it may be raised at once, -1 if not
        before its cause has ended."""
        cause = self.by.get(key)
        return 0 if cause is None else self.causes[cause].ends(grace)


def held(
    before: Held,
    conditions: Conditions,
    raised: Mapping[AlertKey, Alert],
    now: int,
    grace: Callable[[str], int],
) -> Held:
    """Finds the conditions to hold back. `grace` returns the grace period of a cluster."""
    causes = dict(_known(before.causes, conditions, raised, now, grace))
    order = list(TABLE)
    ranked_keys = sorted(causes, key=lambda key: order.index(cause_of(key, causes[key].condition)))
    candidates = [key for key in conditions if key.kind in CONSEQUENCES] if causes else []
    cause_keys: dict[AlertKey, AlertKey] = {}
    for cause_key in ranked_keys:
        cause = causes[cause_key]
        if cause_key in cause_keys or 0 <= cause.ends(grace(cause_key.cluster)) <= now:
            continue
        for key in candidates:
            if key not in cause_keys and _follows(key, conditions[key], cause_key, cause):
                cause_keys[key] = cause_key
    consequences: dict[AlertKey, dict[AlertKey, int]] = {key: {} for key in causes}
    for key, cause_key in cause_keys.items():
        consequences[cause_key][key] = conditions[key].since
    return Held(
        {key: _with_progress(cause, consequences[key], now) for key, cause in causes.items()},
        cause_keys,
    )


def _known(
    before: Causes,
    conditions: Conditions,
    raised: Mapping[AlertKey, Alert],
    now: int,
    grace: Callable[[str], int],
) -> Iterator[tuple[AlertKey, Cause]]:
    """Current causes, and those that are over recently."""
    for key, condition in conditions.items():
        if cause_of(key, condition):
            alert, cause = raised.get(key), before.get(key)
            if cause is not None and cause.over >= 0 and cause.is_raised:
                cause = None  # a new occurrence
            start = alert.since if alert else cause.since if cause else now
            yield key, Cause(condition, start, alert is not None)
    for key, cause in before.items():
        if key in conditions and cause_of(key, conditions[key]):
            continue
        ended_cause = cause if cause.over >= 0 else replace(cause, over=now)
        if now < ended_cause.ends(grace(key.cluster)):
            yield key, ended_cause


def _follows(key: AlertKey, condition: Condition, cause_key: AlertKey, cause: Cause) -> bool:
    if key == cause_key or key.cluster != cause_key.cluster or (key.kind == AWAY and key.host):
        return False
    name = cause_of(cause_key, cause.condition)
    if key.kind == AWAY and cause_key.kind == DISK:  # a broker whose disk is full answers
        return False
    consequence = next((entry for entry in TABLE[name] if entry.kind == key.kind), None)
    if consequence is None or 0 <= cause.over < condition.since:
        return False
    waits_on = condition.waits_on - {LEDGER}
    if consequence.waits_on and not (waits_on and waits_on <= consequence.waits_on):
        return False
    if key.kind == SILENT and condition.since < cause.since - _HEARD_BEFORE:
        return False  # silent before the cause
    if name == "clock":
        return cause_key.host in condition.waits_for
    return name != "broker" or not cause.condition.leaderless.isdisjoint({key.topic, LEDGER_TOPIC})


def _with_progress(cause: Cause, left: Mapping[AlertKey, int], now: int) -> Cause:
    is_better = cause.over >= 0 and any(
        key not in left or left[key] > since for key, since in cause.left.items()
    )
    return replace(cause, left=left, better=now if is_better else cause.better)


_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    UNLOADED: ("1 table that cannot be loaded", "{} tables that cannot be loaded"),
    LATE: ("1 topic is late", "{} topics are late"),
    SILENT: ("1 agent is not heard", "{} agents are not heard"),
    LOADER: ("1 loader is not heard", "{} loaders are not heard"),
    MIRROR: ("1 mirror is not heard", "{} mirrors are not heard"),
    AWAY: ("the ledger cannot be read", "the ledger cannot be read"),
}


def holds_up(causes: Collection[AlertKey], held: Held, ends: Iterable[LoadEnd]) -> str:
    """Describes the consequences that these causes hold back; empty if there are none."""
    own_causes = {
        key: held.causes[key] for key in causes if key in held.causes and key not in held.by
    }
    parts = [_loads(own_causes, ends)]
    counts = Counter(key.kind for key, cause in held.by.items() if cause in own_causes)
    for kind, (singular, plural) in _WORDS.items():
        if kind in counts and not (kind == UNLOADED and parts[0]):
            count = counts[kind]
            parts.append(singular if count == 1 else plural.format(f"{count:,}"))
    return "; ".join(filter(None, parts))


def _loads(causes: Causes, ends: Iterable[LoadEnd]) -> str:
    """The loads that fail, or would, and the time of the last success."""
    stopped_loads = [
        end
        for end in ends
        if any(
            key.cluster == end.cluster
            and _stops(cause_of(key, cause.condition), cause.condition, end.topic)
            for key, cause in causes.items()
        )
    ]
    topics = {(end.cluster, end.topic) for end in stopped_loads}
    if not topics:
        return ""
    last_load = max(end.since if end.failed else end.time for end in stopped_loads)
    loads = "loads of 1 topic" if len(topics) == 1 else f"loads of {len(topics):,} topics"
    return f"{loads}, last loaded {moment(last_load)}"


def _stops(name: str, condition: Condition, topic: str) -> bool:
    return name in {"registry", "loader"} or (name == "broker" and topic in condition.leaderless)
