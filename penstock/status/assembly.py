"""Assembles a `PipelineStatus` from its parts, each of which may be missing. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from agent.monitoring.status import Status, why_not_ready
from audit.alerting.conditions import CLOCK, UNLOADED
from audit.api import answers
from audit.cures.fault_cures import Cure, advice
from audit.headline import NOT_LOADED
from audit.reconciling.findings import State, worst
from penstock.report.words import headline_words
from penstock.status.audit import AuditPart, OpenTopic, cluster_of, landed_of, last_load
from penstock.status.cluster import ClusterPart, Remarks
from penstock.status.values import (
    AgentStatus,
    AlertStatus,
    FailingLoadStatus,
    LoadStatus,
    PipelineStatus,
    TopicStatus,
)
from penstock.status.words import silence_words

_STALE_MILLIS: Final = 60_000  # age from which the audit's reading of the ledger is reported
_JUST_STARTED_MILLIS: Final = 60_000  # until the audit has heard of a new agent
_MOST_OF_ONE_KIND: Final = 10  # lines
_NOT_HEARD: Final = ("never", "silent")
_RUNNING: Final = frozenset({"ok", "behind", "warning"})
# Kinds of alerts about programs that nothing else here is about.
_OF_PROGRAMS: Final = frozenset(
    {"mirror", "loader", "zookeeper", "disk", "certificate", "inputs", "logins", "signatures"}
)


class StatusParts(msgspec.Struct, frozen=True):
    """The answers of the parts. For each answer that is None, `silent` has the reason."""

    cluster: ClusterPart | None = None
    subjects: int | None = None
    agent: Status | None = None
    audit: AuditPart | None = None
    silent: Sequence[str] = ()
    broker_remarks: Remarks = {}


def assembled(parts: StatusParts, now: int) -> PipelineStatus:
    cluster, rows, load = _of_audit(parts)
    topics = tuple(_topics(parts, cluster, rows))
    if load is not None:
        lags = [topic.end - topic.landed for topic in topics if min(topic.end, topic.landed) >= 0]
        load = msgspec.structs.replace(load, lag=sum(max(0, lag) for lag in lags) if lags else -1)
    audit = parts.audit
    headline = audit.headlines.get(cluster) if audit else None
    if headline is not None and headline.complete_until >= 0:
        topics = tuple(_not_after(headline.complete_until, topic) for topic in topics)
    verdict = _verdict(rows, topics, headline)
    end_times = [topic.complete_until for topic in topics if topic.complete_until >= 0]
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
        complete_until=min(end_times, default=-1),
        verdict_as_of=audit.topics.as_of if audit and audit.topics.as_of > 0 else -1,
        alerts=audit.topics.alerts if audit else -1,
        raised=tuple(_raised(audit, cluster)),
        problems=(*parts.silent, *_problems(parts, cluster, now)),
        altered=tuple(audit.topics.altered) if audit else (),
        releases=_releases(parts, cluster),
        signatures=parts.audit.signatures.get(cluster, {}) if parts.audit else {},
    )


def _of_audit(
    parts: StatusParts,
) -> tuple[str, Mapping[str, answers.TopicRow], LoadStatus | None]:
    """The cluster's name, the audit's rows of its topics, and its last load."""
    audit = parts.audit
    if audit is None:
        return "", {}, None
    brokers = parts.cluster.brokers if parts.cluster else ()
    name = cluster_of(audit, {(broker.id, broker.address) for broker in brokers})
    rows = {row.topic: row for row in audit.topics.items if row.cluster == name and not row.deleted}
    return name, rows, last_load(audit, name)


def _topics(
    parts: StatusParts,
    cluster: str,
    rows: Mapping[str, answers.TopicRow],
) -> Iterator[TopicStatus]:
    """The brokers' topics; without an answer of theirs, the audit's."""
    stored_topics = parts.cluster.topics if parts.cluster else None
    unread_bytes = _unread(parts.agent)
    landed_offsets: Mapping[str, int] = {}
    open_topics: Mapping[tuple[str, str], OpenTopic] = {}
    no_offsets = -1
    if parts.audit is not None:
        no_offsets, open_topics = 0, parts.audit.open
        landed_offsets = landed_of(parts.audit, cluster)
    for name in sorted(rows if stored_topics is None else stored_topics):
        stored_topic = stored_topics[name] if stored_topics is not None else None
        row = rows.get(name)
        open_topic = open_topics.get((cluster, name))
        yield TopicStatus(
            topic=name,
            partitions=stored_topic.partitions if stored_topic else -1,
            stored=stored_topic.stored if stored_topic else -1,
            end=stored_topic.end if stored_topic else -1,
            rate=row.rate.events if row else -1.0,
            landed=landed_offsets.get(name, no_offsets),
            unread_bytes=-1 if unread_bytes is None else unread_bytes.get(name, 0),
            state=row.state if row else "",
            complete_until=open_topic.complete_until if open_topic else -1,
            waits=(open_topic.waits if open_topic else "") or (row.waits if row else ""),
            missing=row.missing if row else 0,
            excess=row.excess if row else 0,
            of_last_day=row.events if row else -1,
            load_fails=row.load_fails if row else False,
            kinds=row.kinds if row else (),
            accepted=row.accepted if row else (),
            dead=row.dead.total if row else 0,
        )


def _failing(audit: AuditPart | None, cluster: str) -> Iterator[FailingLoadStatus]:
    for failing_load in audit.topics.failing_loads if audit else ():
        if failing_load.cluster == cluster:
            yield FailingLoadStatus(
                topic=failing_load.topic,
                since=failing_load.since,
                reason=failing_load.reason,
                cure=failing_load.cure,
                destination=failing_load.destination,
            )


def _raised(audit: AuditPart | None, cluster: str) -> Iterator[AlertStatus]:
    """Without those that the headline or a failing load already reports."""
    headline = audit.headlines.get(cluster) if audit else None
    ids = {topic_finding.finding.id for topic_finding in headline.worst} if headline else set()
    for alert in audit.alerts if audit else ():
        is_reported = alert.kind == UNLOADED or (alert.finding and alert.finding in ids)
        if alert.cluster in {cluster, ""} and not is_reported:
            yield AlertStatus(
                kind=alert.kind,
                words=alert.words,
                raised=alert.raised,
                command=alert.command,
                command_kind=alert.command_kind,
            )


def _not_after(moment: int, topic: TopicStatus) -> TopicStatus:
    return msgspec.structs.replace(topic, complete_until=min(topic.complete_until, moment))


def _is_wrong(headline: answers.Headline) -> bool:
    return headline.state.is_fault or headline.mark == NOT_LOADED


def _cure(audit: AuditPart | None, cluster: str) -> Cure:
    """The cure of the worst finding."""
    headline = audit.headlines.get(cluster) if audit else None
    return Cure.of(headline.worst[0].finding) if headline and headline.worst else Cure()


def _verdict(
    rows: Mapping[str, answers.TopicRow],
    topics: Sequence[TopicStatus],
    headline: answers.Headline | None,
) -> str:
    """The worst state of all topics; empty if the brokers have none. A fault of the headline
    counts, as it may be of a deleted topic. It is pending if the audit's headline is: an agent that
    is silent, or does not read all of its inputs, may have unread lines."""
    states = [row.state for row in rows.values()]
    if headline is not None and headline.state.is_fault:
        return worst([*states, headline.state])
    state = worst(states) if states else ""
    if state is State.COMPLETE and headline is not None and headline.state is State.PENDING:
        return State.PENDING
    return "" if state in {State.EMPTY, State.COMPLETE} and not topics else state


def _unread(agent: Status | None) -> dict[str, int] | None:
    if agent is None:
        return None
    unread_bytes: dict[str, int] = {}
    for agent_input in agent.inputs:
        unread_bytes[agent_input.topic] = (
            unread_bytes.get(agent_input.topic, 0) + agent_input.lag_bytes
        )
    return unread_bytes


def _agents(parts: StatusParts, cluster: str) -> Iterator[AgentStatus]:
    """Agents as the audit knows them; the local one by its own answer."""
    local_agent = parts.agent
    rows = parts.audit.agents.items if parts.audit else []
    is_listed = False
    for row in rows:
        if row.cluster != cluster:
            continue
        is_local = local_agent is not None and row.agent == local_agent.agent
        is_listed |= is_local
        files, lag = (
            _files_and_lag(local_agent) if local_agent and is_local else (-1, row.lag_bytes)
        )
        yield AgentStatus(
            agent=row.agent,
            host=row.host,
            state=row.state,
            version=row.version,
            files=files,
            lag_bytes=lag,
            heard=row.heard,
        )
    if local_agent is not None and not is_listed:
        files, lag = _files_and_lag(local_agent)
        yield AgentStatus(
            agent=local_agent.agent,
            host=local_agent.host,
            state=local_agent.phase.value,
            version=local_agent.version,
            files=files,
            lag_bytes=lag,
        )


def _releases(parts: StatusParts, cluster: str) -> dict[str, tuple[str, ...]]:
    """The programs that run by their release, as the audit knows them; the commonest first."""
    audit = parts.audit
    releases: dict[str, list[str]] = {}

    def add(row: answers.HealthRow | answers.AgentRow, program: str) -> None:
        if row.version and row.host and row.cluster == cluster and row.state in _RUNNING:
            releases.setdefault(row.version, []).append(f"{program} on {row.host}")

    for row in audit.health if audit else ():
        add(row, row.program)
    for agent in audit.agents.items if audit else ():
        add(agent, "agent")
    sorted_releases = sorted(releases.items(), key=lambda release: (-len(release[1]), release[0]))
    return {version: tuple(dict.fromkeys(programs)) for version, programs in sorted_releases}


def _files_and_lag(status: Status) -> tuple[int, int]:
    """Totals of all inputs; a file that several inputs read counts once for each."""
    return (
        sum(agent_input.files for agent_input in status.inputs),
        sum(agent_input.lag_bytes for agent_input in status.inputs),
    )


def _problems(parts: StatusParts, cluster: str, now: int) -> Iterator[str]:
    """The problems that the answers report."""
    for url, remarks in parts.broker_remarks.items():
        for remark in remarks[:_MOST_OF_ONE_KIND]:
            yield f"broker at {url}: {remark}"
        if len(remarks) > _MOST_OF_ONE_KIND:
            further_count = len(remarks) - _MOST_OF_ONE_KIND
            yield f"broker at {url}: and {further_count:,} more lines, see {url}/readyz"
    if parts.cluster is not None:
        leaderless_count = sum(topic.without_leader for topic in parts.cluster.topics.values())
        if leaderless_count:
            yield f"brokers: {leaderless_count:,} partitions have no leader"
    if parts.agent is not None and (reason := why_not_ready(parts.agent)):
        yield f"agent: not ready: {reason}"
    yield from _not_heard(parts, cluster, now)
    yield from _unwell(parts, cluster)
    if parts.audit is not None:
        topics = parts.audit.topics
        for notice in topics.notices:
            yield f"audit: {notice}"
        if not cluster and topics.clusters:
            yield f"audit: none of its clusters ({_few(topics.clusters)}) has these brokers"
        if 0 < topics.as_of < topics.now - _STALE_MILLIS:
            seconds = (topics.now - topics.as_of) // 1000
            yield f"audit: it last read the ledger {seconds:,} s ago, so its answers are that old"


def _not_heard(parts: StatusParts, cluster: str, now: int) -> Iterator[str]:
    """Silent agents, but for one that has just started; with what the audit's health row of the
    agent says, unless it is listed by itself."""
    rows = _silent_agents(parts, cluster, now)
    health = {
        (row.cluster, row.name): row
        for row in (parts.audit.health if parts.audit else ())
        if row.program == "agent" and row.kind not in _OF_PROGRAMS
    }
    for row in rows[:_MOST_OF_ONE_KIND]:
        words = [silence_words(row.agent, row.host, row.heard, now)]
        if row.agent and (known := health.get((row.cluster, row.agent))):
            words += [known.words] if known.words not in {"silent", "never heard"} else []
            words += [advice(Cure.of(known))] if known.command else []
        yield "; ".join(words)
    if len(rows) > _MOST_OF_ONE_KIND:
        yield f"and {len(rows) - _MOST_OF_ONE_KIND:,} more agents are silent"


def _silent_agents(parts: StatusParts, cluster: str, now: int) -> list[answers.AgentRow]:
    local_agent = parts.agent
    clocks = (
        {alert.host for alert in parts.audit.alerts if alert.kind == CLOCK} if parts.audit else ()
    )
    is_new = local_agent and now - local_agent.started_millis < _JUST_STARTED_MILLIS
    return [
        row
        for row in (parts.audit.agents.items if parts.audit else [])
        if row.state in _NOT_HEARD
        and row.host not in clocks  # heard from, under a wrong time
        and row.cluster in {cluster, ""}  # a host of the inventory belongs to no cluster
        and not (local_agent and is_new and row.agent == local_agent.agent)
    ]


def _unwell(parts: StatusParts, cluster: str) -> Iterator[str]:
    """Programs with a problem that the audit knows of, except those that other lines report: silent
    agents, and brokers and registries that do not answer."""
    local_agent = parts.agent.agent if parts.agent else None
    rows = [
        row
        for row in (parts.audit.health if parts.audit else [])
        if row.kind in _OF_PROGRAMS
        and row.cluster in {cluster, ""}
        and (row.program, row.kind) != ("broker", "zookeeper")  # ZooKeeper's own row says it
        and not (row.kind == "inputs" and row.name == local_agent)  # it says so itself
    ]
    for row in rows[:_MOST_OF_ONE_KIND]:
        about = f"{row.program}: {row.words}"
        yield f"{about}; {advice(Cure.of(row))}" if row.command else about
    if len(rows) > _MOST_OF_ONE_KIND:
        rest_count = len(rows) - _MOST_OF_ONE_KIND
        yield f"and {rest_count:,} more programs need attention: see the audit's page, Health"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
