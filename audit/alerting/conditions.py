"""Decides which conditions raise an alert and which alerts are resolved, and describes them. Pure.

An alert is about one kind of fault in one hour of one topic, in however many windows; about a table
whose loads fail; about a topic that waits; or about one host. It lasts until the fault is repaired
or accepted, and does not hide faults of other hours.

Problems of programs are alerts, too: a program that is away, an expiring certificate, a full disk,
a lost session with ZooKeeper, an input that an agent does not read. They are known from statements
in the ledger, and those of the audit from its own host.

The states of an alert, and what ends each; so a condition that comes and goes is one alert:

    waiting   its condition lasted for `alerts.after`, there is room, no cause holds it (causes.py)
                                                                                        -> raised
              its condition is gone                                                     -> nothing
    raised    its condition is gone, and that proves that it is over (`unfinished`)     -> ending
    ending    its condition is back                                                     -> raised
              its condition has been gone for `alerts.keep_for`                         -> resolved

A condition about a measure begins at its limit, and is gone only well below it. Raised alerts are
stored with their beginning: after a restart none is raised twice, and those whose condition ended
meanwhile are ending.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from audit.api.answers import AgentRow, FailingLoad, JournalFault
from audit.clusters.state import ClusterState
from audit.configuration.config import AlertsConfig, CommandsConfig
from audit.cures.fault_cures import Cure, cure_in, cure_words
from audit.cures.program_commands import ProgramCommands
from audit.headline import length_words
from audit.programs import (
    CERTIFICATE,
    DISK,
    INPUTS,
    LOADER,
    MIRROR,
    WITHOUT_ALERT,
    ZOOKEEPER,
    Program,
    ProgramKind,
    moment,
    room_first,
    servers_words,
    troubles,
)
from audit.reconciling.dead_letters import table_of_dead, topic_of_dead
from audit.reconciling.findings import State
from audit.reconciling.picture import TopicKey
from audit.silence import RefusedLogins, silence
from audit.store.judged_hours import HourVerdict
from audit.store.rows import Alert, LoadEnd, TopicShare
from ledger.examination import ProofFaultKind

LATE: Final = "late"
SILENT: Final = "silent"
UNLOADED: Final = "unloaded"
DEAD: Final = "dead"
ALTERED: Final = "altered"
AWAY: Final = "away"
CLOCK: Final = "clock"
SIGNATURES: Final = "signatures"
REGISTRY: Final = "registry"  # the program, with `away`
FOR_SCHEMAS: Final = frozenset({REGISTRY})  # `waits_on` of a ledger that lacks schemas
FAULTS: Final = (State.UNKNOWN, State.MISSING, State.DUPLICATED, State.CHANGED)
KINDS: Final = (
    *(state.value for state in FAULTS),
    *(UNLOADED, LATE, SILENT, DEAD, ALTERED, AWAY, CLOCK, SIGNATURES),
    *(MIRROR, LOADER, ZOOKEEPER, CERTIFICATE, DISK, INPUTS),
)

_OF_AUDIT: Final = frozenset({CERTIFICATE, DISK})  # without a cluster, it is the audit's own
_LONGEST_WORDS: Final = 1_000
_FEW_LINES: Final = 100
CLEARED: Final = 0.8  # a share with an alert is well again below this part of its limit
_FEW_TOPICS: Final = 5  # of an agent, in words


class AlertKey(NamedTuple):
    """The subject of an alert."""

    kind: str
    cluster: str
    topic: str
    host: str
    hour: int = -1  # of event time, with a fault


class Condition(NamedTuple):
    """A condition that becomes an alert if it lasts."""

    words: str
    lines: int = -1  # affected; -1: unknown
    hosts: tuple[str, ...] = ()
    cure: Cure = Cure()
    finding: str = ""  # the id of the worst finding of the fault
    began: int = -1  # the earliest time that the worst finding may be about
    since: int = -1  # when it began, if the ledger has it
    waits_on: frozenset[str] = frozenset()  # for `late`, and for a ledger that is away
    leaderless: frozenset[str] = (
        frozenset()
    )  # topics that take no lines, as a broker is away or full
    waits_for: frozenset[str] = frozenset()  # for `late`: the hosts of agents
    of_all: bool = False  # for `silent`: no agent of the cluster is heard
    lost_bytes: int = 0  # with an unknown number of lines


Conditions = Mapping[AlertKey, Condition]


def of_hours(
    hours: Iterable[HourVerdict],
    as_of: Mapping[str, int],
    late_millis: int,
    *,
    is_gone: Callable[[TopicKey], bool],
) -> dict[AlertKey, Condition]:
    """Returns the conditions for faults, and for windows that have waited too long. `as_of`: the
    time up to which each cluster's ledger was read. Deleted topics are never late."""
    conditions: dict[AlertKey, Condition] = {}
    late_verdicts: dict[TopicKey, HourVerdict] = {}
    for verdict in hours:
        key = verdict.judged.key
        for state, words in verdict.faults.items():
            alert_key = AlertKey(state.value, key.cluster, key.topic, "", verdict.judged.hour)
            worst_finding = verdict.worst.get(state)
            conditions.setdefault(
                alert_key,
                Condition(
                    _fault(alert_key, words),
                    verdict.lines(state),
                    verdict.hosts.get(state, ()),
                    cure=Cure.of(worst_finding) if worst_finding else Cure(),
                    finding=worst_finding.id if worst_finding else "",
                    began=worst_finding.from_time if worst_finding else -1,
                    lost_bytes=verdict.lost_bytes(state),
                ),
            )
        latest_start = as_of.get(key.cluster, 0) - late_millis
        if 0 <= verdict.waiting_since <= latest_start and not is_gone(key):
            oldest_verdict = late_verdicts.get(key)
            if oldest_verdict is None or verdict.waiting_since < oldest_verdict.waiting_since:
                late_verdicts[key] = verdict
    for key, verdict in late_verdicts.items():
        waits = verdict.judged.waits or "further reports are expected"
        since = _moment(verdict.waiting_since)
        words = f"{key.cluster}/{key.topic} has been waiting since {since}: {waits}"
        conditions[AlertKey(LATE, key.cluster, key.topic, "")] = Condition(
            _short(words),
            since=verdict.waiting_since,
            waits_on=verdict.waits_on,
            waits_for=verdict.waits_for,
        )
    return conditions


def of_loads(rows: Iterable[FailingLoad], commands: CommandsConfig) -> dict[AlertKey, Condition]:
    """Returns a condition for each table whose loads fail at any destination; it describes the
    first failure."""
    conditions: dict[AlertKey, Condition] = {}
    for load in rows:
        key = AlertKey(UNLOADED, load.cluster, load.topic, "")
        cure = cure_in(load.cure, commands)
        advice = load.cure and cure_words(load.cure, commands, short=True)
        words = _short(_unloaded(replace(load, cure=advice)))
        conditions.setdefault(key, Condition(words, cure=cure, since=load.since))
    return conditions


def of_agents(
    rows: Iterable[AgentRow],
    commands: ProgramCommands,
    *,
    unheard: Mapping[str, ClusterState] = MappingProxyType({}),
    refused: Sequence[RefusedLogins] = (),
) -> dict[AlertKey, Condition]:
    """Returns the conditions for agents that have fallen silent, and for hosts that were never
    heard from. A host has one condition: not that of an agent that was replaced, if another of it
    is silent. In the clusters in `unheard`, all agents are silent: unless there is only one, or
    `penstock up` runs them, the cure is to inspect the brokers first. `refused`: the logins that
    brokers refuse."""
    conditions: dict[AlertKey, Condition] = {}
    rows = sorted(rows, key=lambda row: not row.replaced_by)
    hosts = {
        cluster: [row.host for row in rows if row.cluster == cluster and not row.replaced_by]
        for cluster in unheard
    }
    for row in rows:
        cause, cure = silence(row, commands, refused)
        words = "; ".join(filter(None, (_silence(row), cause)))
        state = unheard.get(row.cluster) if row.heard > 0 and not cause else None
        if state is not None:
            silent_hosts, location = hosts[row.cluster], f"of {row.cluster}"
            is_only = len(silent_hosts) == 1
            reason = (
                f"it is the only agent {location}" if is_only else f"no agent {location} is heard"
            )
            words += f"; {reason}, {_brokers(state)}"
            if not is_only and not all(map(commands.is_of_up, silent_hosts)):
                cure = commands.look_at_brokers(row.cluster)
        key = AlertKey(SILENT, row.cluster, "", row.host)
        condition = Condition(_short(words), hosts=(row.host,), cure=cure, of_all=state is not None)
        conditions[key] = condition._replace(since=row.heard if row.heard > 0 else -1)
    return conditions


def _brokers(state: ClusterState) -> str:
    """What is known of a cluster's brokers."""
    if state.away:
        is_one = len(state.away) == 1
        numbers = ", ".join(map(str, state.away))
        return f"and broker {numbers} is away" if is_one else f"and brokers {numbers} are away"
    return "and its ledger cannot be read" if state.unreachable else "and its brokers answer"


def of_shares(
    shares: Iterable[TopicShare],
    config: AlertsConfig,
    commands: ProgramCommands,
    raised: Collection[AlertKey] = (),
) -> dict[AlertKey, Condition]:
    """Returns the conditions for topics with too many dead letters, or too much altered text.
    Shares of only a few lines are ignored."""
    conditions: dict[AlertKey, Condition] = {}
    for share in shares:
        share_words = f"of {share.lines:,} lines of {share.cluster}/{share.topic} in the last hour"
        for kind, lines, limit, outcome in (
            (DEAD, share.dead, config.dead, f"became dead letters{_places(share)}"),
            (ALTERED, share.altered, config.altered, "were altered"),
        ):
            key = AlertKey(kind, share.cluster, share.topic, "")
            bound = CLEARED if key in raised else 1.0
            if share.lines >= bound * _FEW_LINES and lines > bound * limit * share.lines:
                words = _short(f"{lines:,} {share_words} {outcome}")
                cure = _dead_cure(share, commands) if kind == DEAD else Cure()
                conditions[key] = Condition(words, lines, cure=cure)
    return conditions


def _places(share: TopicShare) -> str:
    """The places of the dead letters, with the number in each if there are several."""
    numbers = {
        topic_of_dead(share.topic): share.rejected,
        table_of_dead(share.topic, share.root): share.undecoded,
    }
    places = [(place, number) for place, number in numbers.items() if number]
    if len(places) == 1:
        return f", in {places[0][0]}"
    return ": " + ", ".join(f"{number:,} in {place}" for place, number in places)


def _dead_cure(share: TopicShare, commands: ProgramCommands) -> Cure:
    return commands.look_at_dead(
        topic_of_dead(share.topic) if share.rejected else "",
        table_of_dead(share.topic, share.root) if share.undecoded else "",
    )


def of_clusters(
    clusters: Mapping[str, ClusterState],
    programs: Iterable[Program],
    commands: ProgramCommands,
) -> dict[AlertKey, Condition]:
    """Returns the conditions for unreadable ledgers, absent brokers that hold replicas, and
    unreachable registries. `programs` has the host of each broker, and its disks as last known."""
    brokers = {
        (program.cluster, program.name): program
        for program in programs
        if program.kind is ProgramKind.BROKER
    }

    def named(cluster: str, broker: int, host: str = "") -> str:
        program = brokers.get((cluster, str(broker)))
        host = program.host if program else host
        return f"broker {broker} on {host}" if host else f"broker {broker}"

    def away(words: str, cluster: str, broker: int) -> Condition:
        program = brokers.get((cluster, str(broker)))
        needs, cure = room_first(program, commands) if program else ("", Cure())
        return Condition(_short(words + needs), cure=cure)

    conditions: dict[AlertKey, Condition] = {}
    for name, cluster in clusters.items():
        if cluster.unreachable:
            words = f"the ledger of {name} cannot be read: {cluster.unreachable}"
            waits_on = FOR_SCHEMAS if cluster.is_for_schemas else frozenset[str]()
            only_broker = cluster.unanswering
            broker_names = (named(name, only_broker.id, only_broker.host),) if only_broker else ()
            condition = away(words, name, only_broker.id if only_broker else -1)
            conditions[AlertKey(AWAY, name, "", "")] = condition._replace(
                waits_on=waits_on, hosts=broker_names
            )
        leaderless = frozenset(cluster.leaderless)
        for broker in cluster.away:
            words = f"broker {broker} of {name} is away, and holds replicas"
            key = AlertKey(AWAY, name, "", f"broker {broker}")
            conditions[key] = away(words, name, broker)._replace(
                leaderless=leaderless, hosts=(named(name, broker),)
            )
        if cluster.registry_away:
            words = f"the registry of {name} does not answer: {cluster.registry_away}"
            conditions[AlertKey(AWAY, name, "", REGISTRY)] = Condition(_short(words))
    return conditions


def of_clocks(wrong: Mapping[tuple[str, str], int]) -> dict[AlertKey, Condition]:
    """Returns the conditions for hosts whose clocks are wrong. `wrong` has the milliseconds by
    which each clock is ahead."""
    conditions: dict[AlertKey, Condition] = {}
    for (cluster, host), millis_ahead in wrong.items():
        way = "ahead" if millis_ahead > 0 else "behind"
        words = _short(f"the clock of {host} is {length_words(abs(millis_ahead))} {way}")
        conditions[AlertKey(CLOCK, cluster, "", host)] = Condition(words, hosts=(host,))
    return conditions


def of_signatures(
    faults: Iterable[JournalFault], commands: ProgramCommands
) -> dict[AlertKey, Condition]:
    """Returns a condition for each host in whose name somebody has written statements."""
    by_host: dict[AlertKey, list[JournalFault]] = {}
    for fault in faults:
        by_host.setdefault(AlertKey(SIGNATURES, fault.cluster, "", fault.host), []).append(fault)
    return {
        key: Condition(
            _short(_forged(host_faults)),
            hosts=(key.host,),
            cure=commands.look("penstock", "audit", "keys"),
            since=min(fault.noticed for fault in host_faults),
        )
        for key, host_faults in by_host.items()
    }


def _forged(faults: Sequence[JournalFault]) -> str:
    """Describes the faults of one host."""
    first = faults[0]
    counts = {
        kind: sum(fault.entries for fault in faults if fault.kind == kind)
        for kind in ProofFaultKind
    }
    words = [
        f"{count:,} {'entry' if count == 1 else 'entries'} {_FORGED[kind]}"
        for kind, count in counts.items()
        if count
    ]
    journals = len({fault.journal for fault in faults})
    where = f"the journal {first.journal}" if journals == 1 else f"{journals:,} journals"
    return f"in {where} of {first.host}: {', '.join(words)}"


_FORGED: Final = {
    ProofFaultKind.FORGED: "forged and not counted",
    ProofFaultKind.ALTERED: "altered",
    ProofFaultKind.CLAIMS: "about another journal's source and not counted",
    ProofFaultKind.UNKNOWN_KEY: "signed with an unknown key and not counted",
    ProofFaultKind.TIER: "signed with the key of another program and not counted",
    ProofFaultKind.UNSIGNED: "unsigned and, as signatures are required, not counted",
    ProofFaultKind.BEGUN_ANEW: "unproven, as an older release or damaged numbers leave them",
}


def of_programs(
    programs: Iterable[Program],
    config: AlertsConfig,
    commands: ProgramCommands,
    as_of: Mapping[str, int],
    now: int,
    *,
    raised: Collection[AlertKey] = (),
) -> dict[AlertKey, Condition]:
    """Returns the conditions for absent mirrors and loaders, brokers without ZooKeeper, inputs that
    an agent does not read, disks that fill up, and certificates that expire. `as_of`: the time up
    to which each cluster's ledger was read; programs of other clusters are left out, except those
    that belong to no cluster."""
    by_key: dict[AlertKey, list[Condition]] = {}
    brokers: dict[str, list[Program]] = {}
    for program in programs:
        if program.cluster and program.cluster not in as_of:
            continue
        time = as_of.get(program.cluster, now)
        hosts = (program.host,)
        was_full = AlertKey(DISK, program.cluster, "", program.host) in raised
        room = 1 / CLEARED if was_full else 1.0
        for kind, words, cure, since in troubles(program, config, commands, time, room=room):
            if kind in WITHOUT_ALERT:
                continue
            key = AlertKey(kind, program.cluster, "", program.host)
            unwritable = program.unwritable if kind == DISK else frozenset[str]()
            condition = Condition(words, hosts=hosts, cure=cure, since=since, leaderless=unwritable)
            by_key.setdefault(key, []).append(condition)
        if program.kind is ProgramKind.BROKER:
            brokers.setdefault(program.cluster, []).append(program)
    for cluster, cluster_brokers in brokers.items():
        if words := servers_words(cluster_brokers, as_of[cluster]):
            by_key[AlertKey(ZOOKEEPER, cluster, "", "")] = [Condition(words)]
    return {key: _together(conditions) for key, conditions in by_key.items()}


def _together(conditions: Sequence[Condition]) -> Condition:
    """Combines the conditions of one host."""
    full_first = sorted(conditions, key=lambda condition: not condition.leaderless)
    words = "; ".join(dict.fromkeys(condition.words for condition in full_first))
    return full_first[0]._replace(words=_short(words))


def unfinished(
    raised: Mapping[AlertKey, Alert],
    conditions: Conditions,
    programs: Iterable[Program],
    ends: Collection[LoadEnd],
    as_of: Mapping[str, int],
) -> dict[AlertKey, Condition]:
    """Returns raised alerts whose condition is gone without proof of recovery: a loader runs again
    but has loaded nothing, or brokers no longer report their sessions with ZooKeeper."""
    past_alerts = {key: alert for key, alert in raised.items() if key not in conditions}
    loader_conditions: dict[AlertKey, Condition] = {}
    is_stale_by_key: dict[AlertKey, bool] = {}
    for program in programs:
        keys = [AlertKey(kind, program.cluster, "", program.host) for kind in (LOADER, ZOOKEEPER)]
        if program.kind is ProgramKind.LOADER and (alert := past_alerts.get(keys[0])):
            own_ends = [
                end
                for end in ends
                if (end.cluster, end.destination) == (alert.cluster, program.name)
            ]
            if own_ends and not any(end.time > alert.since and not end.failed for end in own_ends):
                words = f"{program.title} is at work, and has loaded nothing since "
                words = _short(words + moment(alert.since))
                loader_conditions[keys[0]] = Condition(
                    words, hosts=(program.host,), since=alert.since
                )
        elif program.kind is ProgramKind.BROKER:
            is_recent = program.is_recent(as_of.get(program.cluster, 0))
            for key in (keys[1], keys[1]._replace(host="")):
                is_stale_by_key[key] = is_stale_by_key.get(key, True) and not is_recent
    stale_alerts = {
        key: past_alerts[key]
        for key, is_stale in is_stale_by_key.items()
        if is_stale and key in past_alerts
    }
    return loader_conditions | {
        key: Condition(alert.words, since=alert.since) for key, alert in stale_alerts.items()
    }


class UnknownClusters(msgspec.Struct, frozen=True):
    """Clusters that the audit cannot see at present: whether their alerts are over is unknown."""

    unread: frozenset[str] = frozenset()  # their ledger is not read to its end
    unseen: frozenset[str] = frozenset()  # their programs could not be polled either

    def has(self, kind: str, cluster: str) -> bool:
        """Whether it is unknown if alerts of this kind in this cluster are over."""
        if kind == AWAY:
            return cluster in self.unseen
        if kind in _OF_AUDIT and not cluster:
            return False
        return cluster in self.unread or bool(self.unread and not cluster)


def _fault(about: AlertKey, words: str) -> str:
    topic = f"{about.cluster}/{about.topic}"
    date = f"in the hour {_moment(about.hour)}"
    if about.kind == State.UNKNOWN:
        return _short(f"it is unknown whether all events of {topic} {date} have arrived: {words}")
    return _short(f"{topic} has {about.kind} events {date}: {words}")


def _unloaded(load: FailingLoad) -> str:
    words = (
        f"{load.cluster}/{load.topic} has not been loaded into {load.destination} since "
        f"{_moment(load.since)}: {load.reason}"
    )
    return f"{words}. What to do: {load.cure}" if load.cure else words


def _silence(row: AgentRow) -> str:
    if row.heard <= 0:
        return f"{row.host} is in the inventory, and was never heard"
    topics = f", which ships {', '.join(row.topics[:_FEW_TOPICS])}," if row.topics else ""
    return f"{row.host} (agent {row.agent}){topics} was last heard at {_moment(row.heard)}"


def _moment(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%dT%H:%M}Z"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_WORDS else f"{text[: _LONGEST_WORDS - 1]}…"


MOST_RAISED: Final = 20_000  # a week of a hundred topics, each hour with one kind of fault


class Ending(NamedTuple):
    """A raised alert whose condition is gone but may come back."""

    condition: Condition  # as it was last known
    since: int


def endings(
    raised: Mapping[AlertKey, Alert],
    conditions: Conditions,
    known: Conditions,
    before: Mapping[AlertKey, Ending],
    *,
    now: int,
    keep_for: int,
) -> dict[AlertKey, Ending]:
    """Returns alerts to keep although their conditions are gone. `known` has the last known
    conditions."""
    endings_by_key = {
        key: before.get(key) or Ending(known.get(key, Condition(alert.words)), now)
        for key, alert in raised.items()
        if key not in conditions
    }
    return {key: ending for key, ending in endings_by_key.items() if now < ending.since + keep_for}


class Decision(msgspec.Struct, frozen=True):
    """The alerts to raise and to resolve (`changed`), and the beginnings of the other
    conditions."""

    changed: tuple[Alert, ...]
    since: Mapping[AlertKey, int]  # of conditions that are not raised


class WaitingCondition(NamedTuple):
    """A condition that is not raised yet, as it may be transient."""

    key: AlertKey
    words: str
    since: int
    due: int  # when it is raised, if it lasts


def decide(
    conditions: Conditions,
    raised: Mapping[AlertKey, Alert],
    since: Mapping[AlertKey, int],
    *,
    now: int,
    after: Mapping[str, int],
    ending: Collection[AlertKey] = (),
    most: int = MOST_RAISED,
    is_held: Callable[[AlertKey, int], bool] = lambda *_: False,
) -> Decision:
    """Decides which alerts to raise and to resolve. `raised` has the unresolved alerts, `after` the
    wait by kind. Conditions that are held back keep waiting, and alerts in `ending` stay raised."""
    room = most - len(raised)
    waiting_since: dict[AlertKey, int] = {}
    changed_alerts: list[Alert] = []
    for key, condition in conditions.items():
        if key in raised:
            continue
        begin = since.get(key, now)
        is_due = now - begin >= after.get(key.kind, 0) and not is_held(key, begin)
        if is_due and len(changed_alerts) < room:
            first_time = condition.since if 0 <= condition.since < begin else begin
            changed_alerts.append(_raised(key, condition, now, first_time))
        else:
            waiting_since[key] = begin
    changed_alerts += [
        alert._replace(resolved=now)
        for key, alert in raised.items()
        if key not in conditions and key not in ending
    ]
    return Decision(tuple(changed_alerts), waiting_since)


def waiting(
    conditions: Conditions,
    since: Mapping[AlertKey, int],
    after: Mapping[str, int],
    until: Callable[[AlertKey], int] = lambda _: 0,
) -> tuple[WaitingCondition, ...]:
    """Returns waiting conditions in the order in which they are due. `until` returns the time until
    which a condition is held back, or -1 if unknown; conditions with an unknown time are left
    out."""
    waiting_conditions = [
        WaitingCondition(
            *(key, conditions[key].words, begin), max(begin + after.get(key.kind, 0), held_until)
        )
        for key, begin in since.items()
        if (held_until := until(key)) >= 0
    ]
    return tuple(sorted(waiting_conditions, key=lambda condition: (condition.due, condition.key)))


def key_of(alert: Alert) -> AlertKey:
    return AlertKey(alert.kind, alert.cluster, alert.topic, alert.host, alert.hour)


def _raised(key: AlertKey, condition: Condition, now: int, since: int) -> Alert:
    kind, cluster, topic, host, hour = key
    words, finding = condition.words, condition.finding
    return Alert(kind, cluster, topic, host, words, now, hour=hour, finding=finding, since=since)
