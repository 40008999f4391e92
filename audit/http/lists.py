"""Answers that are lists: hosts, files, agents, loads, brokers, alerts. The store makes them; what
judges have found is added here."""

import contextlib
from collections import defaultdict
from typing import Final

from msgspec.structs import replace

from audit.api import answers, queries
from audit.clusters.state import BrokerFacts
from audit.errors import Unknown
from audit.http.topic_lookup import failing_loads, key_of, now_of, open_findings
from audit.reconciling.findings import Finding, State, worst
from audit.reconciling.picture import TopicKey
from audit.reconciling.topic_verdict import totals
from audit.service.service import Service, now_millis
from audit.store.fleet.agents import first_to_think_of, patience
from audit.store.judged_hours import HOUR, hour_of
from audit.store.rows import JournalRow

_MOST_WAITING: Final = 100  # alerts that are not raised yet
_MOST_TOPICS: Final = 100  # of a host


def hosts(service: Service, query: queries.HostsQuery) -> answers.Hosts:
    """Of one whose agent is silent nobody knows whether all has come: it is not complete."""
    key = key_of(service, query.cluster, query.topic)
    origin = service.reading.origin(key) or key
    found = service.reading.hosts(origin, query)
    now = now_of(service, origin.cluster)
    agents = service.reading.agents_of(origin.cluster, patience(service.config, now, by_pace=True))
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in open_findings(service, key):
        faults[each.host].append(each)
    return replace(
        found,
        items=[
            _host(each, faults[each.host], [agents[name] for name in each.agents if name in agents])
            for each in found.items
        ],
    )


def host(service: Service, query: queries.HostTopicsQuery) -> answers.HostAnswer:
    asked = queries.AgentsQuery(
        cluster=query.cluster, search=query.host, size=queries.MOST_ITEMS, sort="host"
    )
    of_host = [each for each in agents(service, asked).items if each.host == query.host]
    named = sorted({(each.cluster, topic) for each in of_host for topic in each.topics})
    found = []
    for cluster, topic in named[:_MOST_TOPICS]:
        parts = queries.HostsQuery(
            cluster=cluster, topic=topic, search=query.host, size=queries.MOST_ITEMS
        )
        with contextlib.suppress(Unknown):  # its agent will ship to it, and has not yet
            found += [
                answers.HostTopicRow(cluster=cluster, topic=topic, part=part)
                for part in hosts(service, parts).items
                if part.host == query.host
            ]
    found.sort(key=lambda each: -each.part.state.severity)
    return answers.HostAnswer(host=query.host, agents=of_host, items=found, topics_total=len(named))


def _host(
    row: answers.HostRow, faults: list[Finding], agents: list[answers.AgentRow]
) -> answers.HostRow:
    first = first_to_think_of(agents)
    waits = first is not None and first.state in {"silent", "behind"}
    lacking = totals(faults)
    return replace(
        row,
        missing=lacking.missing + lacking.lost,
        state=_state(State.PENDING if waits else row.state, faults),
        agent_state=first.state if first else "",
        heard=first.heard if first else -1,
        kinds=lacking.kinds,
    )


def sources(service: Service, query: queries.SourcesQuery) -> answers.Sources:
    key = key_of(service, query.cluster, query.topic)
    found = service.reading.sources(service.reading.origin(key) or key, query)
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in open_findings(service, key):
        if each.source:
            faults[each.source].append(each)
    return replace(
        found,
        items=[
            replace(
                each,
                state=_state(each.state, faults[each.source]),
                words=[finding.words for finding in faults[each.source]],
            )
            for each in found.items
        ],
    )


def _state(waiting: State, faults: list[Finding]) -> State:
    """The worst that nobody has accepted."""
    return worst([waiting, *(each.kind.state for each in faults if not each.accepted)])


def agents(service: Service, query: queries.AgentsQuery) -> answers.AgentsAnswer:
    now = now_of(service, query.cluster) if query.cluster else service.standing.as_of
    return service.reading.agents(
        query, patience(service.config, now or now_millis(), by_pace=True)
    )


def loads(service: Service, query: queries.LoadsQuery) -> answers.Loads:
    found = service.reading.loads(query)
    hours: list[answers.HourRow] = []
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        only = found.destinations[0] if len(found.destinations) == 1 else ""
        if chosen := query.destination or only:
            hours = _hours(service, key, chosen)
    return replace(
        found,
        hours=hours,
        failing_loads=[
            each
            for each in failing_loads(service, query.cluster)
            if query.topic in {"", each.topic} and query.destination in {"", each.destination}
        ],
    )


def _hours(service: Service, key: TopicKey, destination: str) -> list[answers.HourRow]:
    to_time = hour_of(now_millis()) + HOUR
    from_time = to_time - int(service.config.retention * 1000)
    return service.reading.hours(key, destination, from_time=from_time, to_time=to_time)


def brokers(service: Service, query: queries.BrokersQuery) -> answers.BrokersAnswer:
    clusters = {
        name: each
        for name, each in sorted(service.standing.clusters.items())
        if query.cluster in {"", name}
    }
    rows = []
    for name, cluster in clusters.items():
        journals = service.reading.journals(name)
        rows += [
            _broker(name, each, _counted(each, journals, alone=len(cluster.brokers) == 1))
            for each in cluster.brokers
        ]
    return answers.BrokersAnswer(
        brokers=rows,
        consumers=service.reading.consumers(query.cluster),
        unreachable={name: each.unreachable for name, each in clusters.items() if each.unreachable},
    )


def _broker(cluster: str, facts: BrokerFacts, counted: int) -> answers.BrokerRow:
    return answers.BrokerRow(
        cluster=cluster,
        id=facts.id,
        address=facts.address,
        rack=facts.rack,
        controller=facts.controller,
        partitions=facts.partitions,
        leads=facts.leads,
        counted=counted,
    )


def _counted(facts: BrokerFacts, journals: list[JournalRow], *, alone: bool) -> int:
    """When it last wrote an entry: journals say on which host they are kept."""
    return max((each.last for each in journals if alone or each.host == facts.host), default=-1)


def alerts(service: Service, query: queries.AlertsQuery) -> answers.AlertsAnswer:
    page, found = service.reading.alerts(query)
    waiting = service.alerts_waiting
    return answers.AlertsAnswer(
        page=page,
        items=[
            answers.AlertRow(
                kind=each.kind,
                cluster=each.cluster,
                topic=each.topic,
                host=each.host,
                words=each.words,
                raised=each.raised,
                resolved=each.resolved,
                hour=each.hour,
                finding=each.finding,
                since=each.since,
            )
            for each in found
        ],
        waiting=[
            answers.WaitingAlert(
                **each.key._asdict(), words=each.words, since=each.since, due=each.due
            )
            for each in waiting[:_MOST_WAITING]
        ],
        waiting_total=len(waiting),
    )
