"""Answers that are lists: hosts, files, agents, loads, brokers, alerts."""

from collections import defaultdict
from typing import TypeVar

import msgspec

from audit.cluster_state import BrokerFacts
from audit.http import answers, queries
from audit.http.asking import key_of, now_of, open_findings, page_of
from audit.judged_hours import HOUR, hour_of
from audit.picture import TopicKey
from audit.reconciling.totals import totals
from audit.service import Service, now_millis
from audit.store.rows import HourRow, JournalRow
from audit.verdicts import Finding, State, worst

A = TypeVar("A")


def _as(row: object, kind: type[A], **more: object) -> A:
    """A row of the store as it is answered: its fields have the same names."""
    fields = row._asdict() if isinstance(row, tuple) and hasattr(row, "_asdict") else {}
    known = kind.__struct_fields__  # type: ignore[attr-defined]
    return msgspec.convert({k: v for k, v in (fields | more).items() if k in known}, kind)


def hosts(service: Service, query: queries.HostsQuery) -> answers.Hosts:
    key = key_of(service, query.cluster, query.topic)
    found = service.reading.hosts(key, search=query.search, page=query.page, size=query.size)
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in open_findings(service, key):
        faults[each.host].append(each)
    return answers.Hosts(
        page=page_of(query, found.total),
        items=[
            _as(
                each,
                answers.HostRow,
                missing=_missing(faults[each.host]),
                state=_state(faults[each.host], pending=each.suspect > 0 or each.pending > 0),
            )
            for each in found.items
        ],
    )


def sources(service: Service, query: queries.SourcesQuery) -> answers.Sources:
    key = key_of(service, query.cluster, query.topic)
    found = service.reading.sources(
        key, host=query.host, search=query.search, page=query.page, size=query.size
    )
    faults: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in open_findings(service, key):
        if each.source:
            faults[each.source].append(each)
    return answers.Sources(
        page=page_of(query, found.total),
        items=[
            _as(
                each,
                answers.SourceRow,
                state=_state(faults[each.source], pending=each.suspect),
                words=[finding.words for finding in faults[each.source]],
            )
            for each in found.items
        ],
    )


def _missing(faults: list[Finding]) -> int:
    """As the topic's number has it."""
    lacking = totals(faults)
    return lacking.missing + lacking.lost


def _state(faults: list[Finding], *, pending: bool) -> State:
    """The worst that nobody has accepted."""
    states = [each.kind.state for each in faults if not each.accepted]
    return worst([*states, State.PENDING if pending else State.COMPLETE])


def agents(service: Service, query: queries.AgentsQuery) -> answers.Agents:
    config = service.config
    now = now_of(service, query.cluster) if query.cluster else service.standing.as_of
    found = service.reading.agents(
        now=now or now_millis(),
        silent_millis=int(config.alerts.silent * 1000),
        expected_millis=int(config.expected * 1000),
        cluster=query.cluster,
        state=query.state or "",
        search=query.search,
        sort=query.sort,
        page=query.page,
        size=query.size,
    )
    return answers.Agents(
        by_state=found.by_state,
        page=page_of(query, found.page.total),
        items=[_as(each, answers.AgentRow) for each in found.page.items],
    )


def loads(service: Service, query: queries.LoadsQuery) -> answers.Loads:
    found = service.reading.loads(
        cluster=query.cluster,
        topic=query.topic,
        destination=query.destination,
        page=query.page,
        size=query.size,
    )
    destinations = service.reading.destinations()
    hours: list[answers.HourRow] = []
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        chosen = query.destination or (destinations[0] if len(destinations) == 1 else "")
        hours = _hours(service, key, chosen) if chosen else []
    return answers.Loads(
        destinations=destinations,
        page=page_of(query, found.total),
        items=[_as(each, answers.LoadRow) for each in found.items],
        hours=hours,
    )


def _hours(service: Service, key: TopicKey, destination: str) -> list[answers.HourRow]:
    to_time = hour_of(now_millis()) + HOUR
    from_time = to_time - int(service.config.retention * 1000)
    rows = service.reading.hours(key, destination, from_time=from_time, to_time=to_time)
    return [_hour(each) for each in rows]


def _hour(row: HourRow) -> answers.HourRow:
    said = [row.words] if row.words else []
    if row.faults:
        said.append(f"{row.faults} files are not as they were committed")
    return answers.HourRow(
        hour=row.hour,
        state=State(row.state) if row.state else State.COMPLETE,
        events=row.events,
        rows=row.rows,
        checked=row.checked,
        words="; ".join(said),
    )


def brokers(service: Service, query: queries.BrokersQuery) -> answers.Brokers:
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
    return answers.Brokers(
        brokers=rows,
        consumers=[
            _as(each, answers.ConsumerRow) for each in service.reading.consumers(query.cluster)
        ],
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


def alerts(service: Service, query: queries.AlertsQuery) -> answers.Alerts:
    found = service.reading.alerts(query.state or "", page=query.page, size=query.size)
    return answers.Alerts(
        page=page_of(query, found.total),
        items=[_as(each, answers.AlertRow) for each in found.items],
    )
