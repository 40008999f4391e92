"""The parts put together: what each of them says, and what follows from one being away. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from agent.status import Status, why_not_ready
from audit.alerting.conditions import CLOCK, UNLOADED
from audit.api import answers
from audit.cures.fault_cures import Cure, advice
from audit.headline import NOT_LOADED, JudgedTopics
from audit.headline import headline as made_headline
from audit.reconciling.findings import State, worst
from penstock.report.words import headline_words
from penstock.status.audit import AuditPart, OpenTopic, cluster_of, landed_of, last_load
from penstock.status.cluster import ClusterPart, Remarks
from penstock.status.values import (
    AgentStanding,
    AlertStanding,
    FailingLoadStanding,
    LoadStanding,
    PipelineStatus,
    TopicStanding,
)
from penstock.status.words import silence_words

_STALE_MILLIS: Final = 60_000  # a ledger that was not read since then says nothing of now
_JUST_STARTED_MILLIS: Final = 60_000  # the audit hears of an agent a moment after its start
_MOST_OF_ONE_KIND: Final = 10  # lines
_NOT_HEARD: Final = ("never", "silent")
# Kinds of alerts about programs that nothing else here is about.
_OF_PROGRAMS: Final = frozenset({"mirror", "loader", "zookeeper", "disk", "certificate"})


class StatusParts(msgspec.Struct, frozen=True):
    """What has answered; None what has not, and then `silent` says why."""

    cluster: ClusterPart | None = None
    subjects: int | None = None
    agent: Status | None = None
    audit: AuditPart | None = None
    silent: Sequence[str] = ()
    broker_remarks: Remarks = {}


def joined(parts: StatusParts, now: int) -> PipelineStatus:
    cluster, rows, load = _of_audit(parts)
    topics = tuple(_topics(parts, cluster, rows, load))
    silent = _silent_agents(parts, cluster, now)
    if load is not None:
        lags = [each.end - each.landed for each in topics if min(each.end, each.landed) >= 0]
        load = msgspec.structs.replace(load, lag=sum(max(0, lag) for lag in lags) if lags else -1)
    audit = parts.audit
    verdict = _verdict(rows, topics, silent)
    until = [each.complete_until for each in topics if each.complete_until >= 0]
    until += [each.heard for each in silent if each.heard > 0]
    headline = _headline(audit, cluster, verdict, min(until, default=-1) if silent else None)
    is_calm = headline is not None and headline.state == verdict and not _is_wrong(headline)
    return PipelineStatus(
        now=now,
        cluster=cluster or (parts.agent.cluster if parts.agent else ""),
        brokers=parts.cluster.brokers if parts.cluster else (),
        registry_subjects=-1 if parts.subjects is None else parts.subjects,
        topics=topics,
        agents=tuple(_agents(parts, cluster)),
        expected_hosts=audit.agents.expected_hosts if audit else 0,
        last_load=load,
        failing_loads=tuple(_failing(audit, cluster)),
        headline=headline_words(headline) if headline and _is_wrong(headline) else "",
        calm=headline_words(headline) if headline and is_calm else "",
        mark=headline.mark if headline and is_calm else "",
        **_cure(audit, cluster).fields,
        verdict=verdict,
        complete_until=min(until, default=-1),
        verdict_as_of=audit.topics.as_of if audit and audit.topics.as_of > 0 else -1,
        alerts=audit.topics.alerts if audit else -1,
        raised=tuple(_raised(audit, cluster)),
        problems=(*parts.silent, *_problems(parts, cluster, now)),
        altered=tuple(audit.topics.altered) if audit else (),
    )


def _of_audit(
    parts: StatusParts,
) -> tuple[str, Mapping[str, answers.TopicRow], LoadStanding | None]:
    """The cluster's name, and what the audit says of its topics and its loads."""
    audit = parts.audit
    if audit is None:
        return "", {}, None
    brokers = parts.cluster.brokers if parts.cluster else ()
    name = cluster_of(audit, {(each.id, each.address) for each in brokers})
    rows = {
        each.topic: each for each in audit.topics.items if each.cluster == name and not each.deleted
    }
    return name, rows, last_load(audit, name)


def _topics(
    parts: StatusParts,
    cluster: str,
    rows: Mapping[str, answers.TopicRow],
    load: LoadStanding | None,
) -> Iterator[TopicStanding]:
    """Those that the brokers have; without brokers, those of which the audit knows."""
    stored = parts.cluster.topics if parts.cluster else None
    unread = _unread(parts.agent)
    landed: Mapping[str, int] = {}
    opened: Mapping[tuple[str, str], OpenTopic] = {}
    unlanded = -1
    if parts.audit is not None:
        unlanded, opened = 0, parts.audit.open
        landed = landed_of(parts.audit, cluster, load.destination) if load else {}
    for name in sorted(rows if stored is None else stored):
        held = stored[name] if stored is not None else None
        row = rows.get(name)
        unfinished = opened.get((cluster, name))
        yield TopicStanding(
            topic=name,
            partitions=held.partitions if held else -1,
            stored=held.stored if held else -1,
            end=held.end if held else -1,
            rate=row.rate.events if row else -1.0,
            landed=landed.get(name, unlanded),
            unread_bytes=-1 if unread is None else unread.get(name, 0),
            state=row.state if row else "",
            complete_until=unfinished.complete_until if unfinished else -1,
            waits=(unfinished.waits if unfinished else "") or (row.waits if row else ""),
            missing=row.missing if row else 0,
            excess=row.excess if row else 0,
            of_last_day=row.events if row else -1,
            load_fails=row.load_fails if row else False,
            kinds=row.kinds if row else (),
            partly_unseen=row.partly_unseen if row else False,
        )


def _failing(audit: AuditPart | None, cluster: str) -> Iterator[FailingLoadStanding]:
    for each in audit.topics.failing_loads if audit else ():
        if each.cluster == cluster:
            yield FailingLoadStanding(
                topic=each.topic,
                since=each.since,
                reason=each.reason,
                cure=each.cure,
                destination=each.destination,
            )


def _raised(audit: AuditPart | None, cluster: str) -> Iterator[AlertStanding]:
    """Without what the headline or a failing load says."""
    headline = audit.headlines.get(cluster) if audit else None
    known = {each.finding.id for each in headline.worst} if headline else set()
    for alert in audit.alerts if audit else ():
        is_said = alert.kind == UNLOADED or (alert.finding and alert.finding in known)
        if alert.cluster in {cluster, ""} and not is_said:
            yield AlertStanding(
                kind=alert.kind,
                words=alert.words,
                raised=alert.raised,
                command=alert.command,
                command_kind=alert.command_kind,
            )


def _headline(
    audit: AuditPart | None, cluster: str, verdict: str, until_silence: int | None
) -> answers.Headline | None:
    """The audit's. While agents are silent, lines that they have not read may be missing in it."""
    found = audit.headlines.get(cluster) if audit else None
    if audit is None or verdict != State.PENDING or until_silence is None:
        return found
    pending = JudgedTopics(
        state=State.PENDING, complete_until=until_silence, today=audit.topics.now
    )
    return made_headline(pending) if found is None or not _is_wrong(found) else found


def _is_wrong(headline: answers.Headline) -> bool:
    return headline.state.is_fault or headline.mark == NOT_LOADED


def _cure(audit: AuditPart | None, cluster: str) -> Cure:
    """Of the worst finding."""
    found = audit.headlines.get(cluster) if audit else None
    return Cure.of(found.worst[0].finding) if found and found.worst else Cure()


def _verdict(
    rows: Mapping[str, answers.TopicRow],
    topics: Sequence[TopicStanding],
    silent: Sequence[answers.AgentRow],
) -> str:
    """The worst of all topics; none where the brokers have no topic. While an agent is silent there
    may be lines that it has not read, so nothing is complete up to now."""
    state = worst([each.state for each in rows.values()]) if rows else ""
    if state is State.COMPLETE and silent:
        return State.PENDING
    return "" if state in {State.EMPTY, State.COMPLETE} and not topics else state


def _unread(agent: Status | None) -> dict[str, int] | None:
    if agent is None:
        return None
    unread: dict[str, int] = {}
    for each in agent.inputs:
        unread[each.topic] = unread.get(each.topic, 0) + each.lag_bytes
    return unread


def _agents(parts: StatusParts, cluster: str) -> Iterator[AgentStanding]:
    """As the audit heard them; of the one that was asked, what it says itself."""
    asked = parts.agent
    heard = parts.audit.agents.items if parts.audit else []
    known = False
    for each in heard:
        if each.cluster != cluster:
            continue
        itself = asked is not None and each.agent == asked.agent
        known |= itself
        files, lag = _files_and_lag(asked) if asked and itself else (-1, each.lag_bytes)
        yield AgentStanding(
            agent=each.agent,
            host=each.host,
            state=each.state,
            version=each.version,
            files=files,
            lag_bytes=lag,
            heard=each.heard,
        )
    if asked is not None and not known:
        files, lag = _files_and_lag(asked)
        yield AgentStanding(
            agent=asked.agent,
            host=asked.host,
            state=asked.phase.value,
            version=asked.version,
            files=files,
            lag_bytes=lag,
        )


def _files_and_lag(status: Status) -> tuple[int, int]:
    """Files that several inputs read are counted by each of them, as their lag is."""
    return (
        sum(each.files for each in status.inputs),
        sum(each.lag_bytes for each in status.inputs),
    )


def _problems(parts: StatusParts, cluster: str, now: int) -> Iterator[str]:
    """What those say who did answer."""
    for at, remarks in parts.broker_remarks.items():
        for remark in remarks[:_MOST_OF_ONE_KIND]:
            yield f"broker at {at}: {remark}"
        if len(remarks) > _MOST_OF_ONE_KIND:
            more = len(remarks) - _MOST_OF_ONE_KIND
            yield f"broker at {at}: and {more:,} lines more, see {at}/readyz"
    if parts.cluster is not None:
        leaderless = sum(each.without_leader for each in parts.cluster.topics.values())
        if leaderless:
            yield f"brokers: {leaderless:,} partitions have no leader"
    if parts.agent is not None and (why := why_not_ready(parts.agent)):
        yield f"agent: not ready: {why}"
    yield from _not_heard(parts, cluster, now)
    yield from _unwell(parts, cluster)
    if parts.audit is not None:
        said = parts.audit.topics
        for notice in said.notices:
            yield f"audit: {notice}"
        if not cluster and said.clusters:
            yield f"audit: it reads {_few(said.clusters)}, none of them has these brokers"
        if 0 < said.as_of < said.now - _STALE_MILLIS:
            seconds = (said.now - said.as_of) // 1000
            yield f"audit: the ledger was read {seconds:,} s ago, what is said is as old"


def _not_heard(parts: StatusParts, cluster: str, now: int) -> Iterator[str]:
    """Who ships nothing, or cannot say so. One that has started just now is given a moment."""
    rows = _silent_agents(parts, cluster, now)
    for each in rows[:_MOST_OF_ONE_KIND]:
        yield silence_words(each.agent, each.host, each.heard, now)
    if len(rows) > _MOST_OF_ONE_KIND:
        yield f"and {len(rows) - _MOST_OF_ONE_KIND:,} agents more are silent"


def _silent_agents(parts: StatusParts, cluster: str, now: int) -> list[answers.AgentRow]:
    asked = parts.agent
    clocks = {each.host for each in parts.audit.alerts if each.kind == CLOCK} if parts.audit else ()
    new = asked and now - asked.started_millis < _JUST_STARTED_MILLIS
    return [
        each
        for each in (parts.audit.agents.items if parts.audit else [])
        if each.state in _NOT_HEARD
        and each.host not in clocks  # it is heard, with another time
        and each.cluster in {cluster, ""}  # a host of the inventory is no cluster's
        and not (asked and new and each.agent == asked.agent)
    ]


def _unwell(parts: StatusParts, cluster: str) -> Iterator[str]:
    """Programs that the audit knows something wrong of. Agents that are silent, and brokers and
    registries that do not answer, are said elsewhere."""
    rows = [
        row
        for row in (parts.audit.unwell if parts.audit else [])
        if row.kind in _OF_PROGRAMS
        and row.cluster in {cluster, ""}
        and (row.program, row.kind) != ("broker", "zookeeper")  # as ZooKeeper's row says
    ]
    for row in rows[:_MOST_OF_ONE_KIND]:
        about = f"{row.program}: {row.words}"
        yield f"{about}; {advice(Cure.of(row))}" if row.command else about
    if len(rows) > _MOST_OF_ONE_KIND:
        more = len(rows) - _MOST_OF_ONE_KIND
        yield f"and {more:,} programs more need attention: see the audit's page, Health"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
