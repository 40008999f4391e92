"""What `/api/v1` is made of: which path asks what, and who answers it."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from audit.http import answers, queries
from audit.http.openapi import Described
from audit.http.queries import Query
from audit.service import Service, now_millis
from audit.verdicts import State


def topics(service: Service, query: queries.TopicsQuery) -> answers.Topics:
    standing = service.standing
    return answers.Topics(
        now=now_millis(),
        as_of=standing.as_of,
        by_state={each.value: 0 for each in State},
        clusters=sorted(standing.clusters),
        alerts=0,
        page=_page(query, 0),
        items=[],
        notices=standing.notices(),
    )


def topic(service: Service, query: queries.TopicQuery) -> answers.TopicAnswer:
    now = now_millis()
    window = service.window_millis
    from_time, to_time = queries.between(query, now=now, window=window, otherwise=86_400_000)
    return answers.TopicAnswer(
        cluster=query.cluster or next(iter(service.standing.clusters)),
        topic=query.topic,
        topic_id="",
        former_ids=[],
        state=State.COMPLETE,
        now=now,
        as_of=service.standing.as_of,
        from_time=from_time,
        to_time=to_time,
        step=query.step or window,
        tiers=[],
        flow=answers.Flow(read=0, shipped=0, filtered=0, dead=0, lost=0, lost_bytes=0, events=0),
        cells=[],
        findings=[],
        findings_total=0,
        waits=[],
        waits_total=0,
    )


def findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    return answers.Findings(
        page=answers.Page(page=query.page, size=query.size, total=0), items=[], topics=[]
    )


def hosts(service: Service, query: queries.HostsQuery) -> answers.Hosts:
    return answers.Hosts(page=_page(query, 0), items=[])


def sources(service: Service, query: queries.SourcesQuery) -> answers.Sources:
    return answers.Sources(page=_page(query, 0), items=[])


def agents(service: Service, query: queries.AgentsQuery) -> answers.Agents:
    return answers.Agents(by_state={}, page=_page(query, 0), items=[])


def loads(service: Service, query: queries.LoadsQuery) -> answers.Loads:
    return answers.Loads(destinations=[], page=_page(query, 0), items=[], hours=[])


def brokers(service: Service, query: queries.BrokersQuery) -> answers.Brokers:
    chosen = {
        name: each
        for name, each in service.standing.clusters.items()
        if query.cluster in {"", name}
    }
    return answers.Brokers(
        brokers=[row for each in chosen.values() for row in each.brokers],
        consumers=[row for each in chosen.values() for row in each.consumers],
        unreachable={name: each.unreachable for name, each in chosen.items() if each.unreachable},
    )


def alerts(service: Service, query: queries.AlertsQuery) -> answers.Alerts:
    return answers.Alerts(page=_page(query, 0), items=[])


def report(service: Service, query: queries.ReportQuery) -> answers.Report:
    now = now_millis()
    from_time, to_time = queries.between(
        query, now=now, window=service.window_millis, otherwise=86_400_000
    )
    return answers.Report(
        state=State.COMPLETE,
        from_time=from_time,
        to_time=to_time,
        now=now,
        as_of=service.standing.as_of,
        topics=[],
    )


def hour(service: Service, query: queries.HourQuery) -> answers.HourGate:
    return answers.HourGate(complete=False, by="", missing="nothing is known of it", names=[])


def _page(query: queries._Paged, total: int) -> answers.Page:
    return answers.Page(page=query.page, size=query.size, total=total)


class Resource(NamedTuple):
    """One path. `answer` is called on a thread that may wait for the disk."""

    path: str
    query: type[Query]
    answer: Callable[[Service, Any], msgspec.Struct]
    answered: type[msgspec.Struct]
    summary: str

    @property
    def described(self) -> Described:
        return Described(self.path, self.query, self.answered, self.summary)


RESOURCES: Final = (
    Resource(
        "/api/v1/topics",
        queries.TopicsQuery,
        topics,
        answers.Topics,
        "All topics, with their verdicts and counts by hour.",
    ),
    Resource(
        "/api/v1/topic",
        queries.TopicQuery,
        topic,
        answers.TopicAnswer,
        "One topic by window and tier: what adds up, what does not, what it waits for.",
    ),
    Resource(
        "/api/v1/findings",
        queries.FindingsQuery,
        findings,
        answers.Findings,
        "What is missing, duplicated or changed, by name.",
    ),
    Resource(
        "/api/v1/hosts",
        queries.HostsQuery,
        hosts,
        answers.Hosts,
        "The hosts of a topic, those with faults first.",
    ),
    Resource(
        "/api/v1/sources",
        queries.SourcesQuery,
        sources,
        answers.Sources,
        "The files of a topic, or of one of its hosts, those with faults first.",
    ),
    Resource(
        "/api/v1/agents",
        queries.AgentsQuery,
        agents,
        answers.Agents,
        "All agents: what they ship, how far they are, when they were last heard.",
    ),
    Resource(
        "/api/v1/loads",
        queries.LoadsQuery,
        loads,
        answers.Loads,
        "What was loaded by which run; with a topic, its hours too.",
    ),
    Resource(
        "/api/v1/brokers",
        queries.BrokersQuery,
        brokers,
        answers.Brokers,
        "The brokers of the clusters, and how far their consumers are.",
    ),
    Resource(
        "/api/v1/alerts",
        queries.AlertsQuery,
        alerts,
        answers.Alerts,
        "What was raised, and when it was resolved, the newest first.",
    ),
    Resource(
        "/api/v1/report",
        queries.ReportQuery,
        report,
        answers.Report,
        "The verdict over a stretch of time, as `penstock report` shows it.",
    ),
    Resource(
        "/api/v1/hour",
        queries.HourQuery,
        hour,
        answers.HourGate,
        "Whether agents and brokers are done with an hour of a topic.",
    ),
)
