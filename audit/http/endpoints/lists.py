"""Handles the lists of `/api/v1`: hosts, files, agents, loads, brokers, alerts. The store returns
the rows, and findings are added here."""

import contextlib
from collections import defaultdict
from typing import Final

from msgspec.structs import replace

from audit.api import answers, queries
from audit.clusters.state import BrokerFacts
from audit.errors import Unknown
from audit.http.endpoints.signatures import STATES, signatures
from audit.http.endpoints.topic_lookup import (
    failing_loads,
    failing_of,
    key_of,
    now_of,
    open_findings,
)
from audit.reconciling.findings import Finding, State, worst
from audit.reconciling.picture import TierKind, TopicKey
from audit.reconciling.topic_verdict import totals
from audit.service.service import Service, now_millis
from audit.store.fleet.agents import patience, worst_agent
from audit.store.judged_hours import HOUR, hour_of
from audit.store.rows import JournalRow

_MOST_WAITING: Final = 100  # alerts that are not raised yet
_MOST_TOPICS: Final = 100  # of a host
_MOST_FAULTS: Final = 1_000  # of signatures


def keys(service: Service, query: queries.KeysQuery) -> answers.KeysAnswer:
    """Lists journals with their keys, and the newest faults of signatures."""
    journals = service.reading.journal_keys(query.cluster)
    return answers.KeysAnswer(
        page=query.of(len(journals)),
        journals=journals[query.skipped : query.skipped + query.size],
        faults=service.reading.proof_faults(query.cluster)[:_MOST_FAULTS],
    )


def hosts(service: Service, query: queries.HostsQuery) -> answers.Hosts:
    """Lists the hosts of a topic. A host with a silent agent is pending, because it may have more
    to ship."""
    key = key_of(service, query.cluster, query.topic)
    origin = service.reading.origin(key) or key
    hosts_page = service.reading.hosts(origin, query)
    now = now_of(service, origin.cluster)
    agents = service.reading.agents_of(
        origin.cluster, patience(service.config, now, service.standing.clocks, by_pace=True)
    )
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in open_findings(service, key):
        faults[finding.host].append(finding)
    return replace(
        hosts_page,
        items=[
            _host(row, faults[row.host], [agents[name] for name in row.agents if name in agents])
            for row in hosts_page.items
        ],
    )


def host(service: Service, query: queries.HostTopicsQuery) -> answers.HostAnswer:
    agents_query = queries.AgentsQuery(
        cluster=query.cluster, search=query.host, size=queries.MOST_ITEMS, sort="host"
    )
    host_agents = [row for row in agents(service, agents_query).items if row.host == query.host]
    topics = sorted({(row.cluster, topic) for row in host_agents for topic in row.topics})
    rows = []
    for cluster, topic in topics[:_MOST_TOPICS]:
        hosts_query = queries.HostsQuery(
            cluster=cluster, topic=topic, search=query.host, size=queries.MOST_ITEMS
        )
        with contextlib.suppress(Unknown):  # its agent has not shipped to it yet
            rows += [
                answers.HostTopicRow(cluster=cluster, topic=topic, part=host_row)
                for host_row in hosts(service, hosts_query).items
                if host_row.host == query.host
            ]
    rows.sort(key=lambda row: -row.part.state.severity)
    return answers.HostAnswer(
        host=query.host, agents=host_agents, items=rows, topics_total=len(topics)
    )


def _host(
    row: answers.HostRow, faults: list[Finding], agents: list[answers.AgentRow]
) -> answers.HostRow:
    worst_row = worst_agent(agents)
    waits = worst_row is not None and worst_row.state in {"silent", "behind"}
    host_totals = totals(faults)
    return replace(
        row,
        missing=host_totals.missing + host_totals.lost,
        state=_state(State.PENDING if waits else row.state, faults),
        agent_state=worst_row.state if worst_row else "",
        heard=worst_row.heard if worst_row else -1,
        kinds=host_totals.kinds,
    )


def sources(service: Service, query: queries.SourcesQuery) -> answers.Sources:
    key = key_of(service, query.cluster, query.topic)
    sources_page = service.reading.sources(service.reading.origin(key) or key, query)
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in open_findings(service, key):
        if finding.source:
            faults[finding.source].append(finding)
    return replace(
        sources_page,
        as_of=now_of(service, key.cluster),
        failing_loads=failing_of(service, key) if query.sources else [],
        items=[
            replace(
                row,
                state=_state(row.state, faults[row.source]),
                words=[finding.words for finding in faults[row.source]],
            )
            for row in sources_page.items
        ],
    )


def _state(waiting: State, faults: list[Finding]) -> State:
    """The worst open state."""
    return worst([waiting, *(finding.kind.state for finding in faults if finding.is_open)])


def agents(service: Service, query: queries.AgentsQuery) -> answers.AgentsAnswer:
    now = now_of(service, query.cluster) if query.cluster else service.standing.as_of
    return service.reading.agents(
        query, patience(service.config, now or now_millis(), service.standing.clocks, by_pace=True)
    )


def loads(service: Service, query: queries.LoadsQuery) -> answers.Loads:
    loads_page = service.reading.loads(query)
    hours: list[answers.HourRow] = []
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        only_destination = loads_page.destinations[0] if len(loads_page.destinations) == 1 else ""
        if destination := query.destination or only_destination:
            hours = _hours(service, key, destination)
    return replace(
        loads_page,
        hours=hours,
        failing_loads=[
            load
            for load in failing_loads(service, query.cluster)
            if query.topic in {"", load.topic} and query.destination in {"", load.destination}
        ],
    )


def _hours(service: Service, key: TopicKey, destination: str) -> list[answers.HourRow]:
    to_time = hour_of(now_millis()) + HOUR
    from_time = to_time - int(service.config.retention * 1000)
    return service.reading.hours(key, destination, from_time=from_time, to_time=to_time)


def brokers(service: Service, query: queries.BrokersQuery) -> answers.BrokersAnswer:
    clusters = {
        name: cluster
        for name, cluster in sorted(service.standing.clusters.items())
        if query.cluster in {"", name}
    }
    rows = []
    for name, cluster in clusters.items():
        journals = service.reading.journals(name)
        signed = signatures(service, name)
        is_alone = len(cluster.brokers) == 1
        for facts in cluster.brokers:
            own_journals = [row for row in journals if is_alone or row.host == facts.host]
            hosts = {row.host for row in own_journals}
            states = {signed.of(name, TierKind.BROKER, own_host) for own_host in hosts} - {""}
            signature = max(states, key=STATES.index, default="")
            rows.append(_broker(name, facts, _counted(own_journals), signature))
    return answers.BrokersAnswer(
        brokers=rows,
        consumers=service.reading.consumers(query.cluster),
        unreachable={
            name: cluster.unreachable for name, cluster in clusters.items() if cluster.unreachable
        },
    )


def _broker(cluster: str, facts: BrokerFacts, counted: int, signature: str) -> answers.BrokerRow:
    return answers.BrokerRow(
        cluster=cluster,
        id=facts.id,
        address=facts.address,
        rack=facts.rack,
        controller=facts.controller,
        partitions=facts.partitions,
        leads=facts.leads,
        counted=counted,
        signature=signature,
    )


def _counted(journals: list[JournalRow]) -> int:
    """The time of the latest entry."""
    return max((journal.last for journal in journals), default=-1)


def alerts(service: Service, query: queries.AlertsQuery) -> answers.AlertsAnswer:
    page, alert_rows = service.reading.alerts(query)
    waiting_alerts = service.alerts_waiting
    return answers.AlertsAnswer(
        page=page,
        items=[
            answers.AlertRow(
                kind=alert.kind,
                cluster=alert.cluster,
                topic=alert.topic,
                host=alert.host,
                words=alert.words,
                raised=alert.raised,
                resolved=alert.resolved,
                hour=alert.hour,
                finding=alert.finding,
                since=alert.since,
            )
            for alert in alert_rows
        ],
        waiting=[
            answers.WaitingAlert(
                **alert.key._asdict(), words=alert.words, since=alert.since, due=alert.due
            )
            for alert in waiting_alerts[:_MOST_WAITING]
        ],
        waiting_total=len(waiting_alerts),
    )
