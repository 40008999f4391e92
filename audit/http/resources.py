"""What `/api/v1` is made of: which path asks what, and who answers it."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from audit.http import answers, lists, queries, topics
from audit.http.openapi import Described
from audit.http.queries import Query
from audit.service import Service


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
        topics.topics,
        answers.Topics,
        "All topics, with their verdicts and counts by hour.",
    ),
    Resource(
        "/api/v1/topic",
        queries.TopicQuery,
        topics.topic,
        answers.TopicAnswer,
        "One topic by window and tier: what adds up, what does not, what it waits for.",
    ),
    Resource(
        "/api/v1/findings",
        queries.FindingsQuery,
        topics.all_findings,
        answers.Findings,
        "What is missing, duplicated, changed or unknown, by name.",
    ),
    Resource(
        "/api/v1/hosts",
        queries.HostsQuery,
        lists.hosts,
        answers.Hosts,
        "The hosts of a topic, those with faults first.",
    ),
    Resource(
        "/api/v1/sources",
        queries.SourcesQuery,
        lists.sources,
        answers.Sources,
        "The files of a topic, or of one of its hosts, those with faults first.",
    ),
    Resource(
        "/api/v1/agents",
        queries.AgentsQuery,
        lists.agents,
        answers.Agents,
        "All agents: what they ship, how far they are, when they were last heard.",
    ),
    Resource(
        "/api/v1/loads",
        queries.LoadsQuery,
        lists.loads,
        answers.Loads,
        "What was loaded by which run; with a topic, its hours too.",
    ),
    Resource(
        "/api/v1/brokers",
        queries.BrokersQuery,
        lists.brokers,
        answers.Brokers,
        "The brokers of the clusters, and how far their consumers are.",
    ),
    Resource(
        "/api/v1/alerts",
        queries.AlertsQuery,
        lists.alerts,
        answers.Alerts,
        "What was raised, and when it was resolved, the newest first.",
    ),
    Resource(
        "/api/v1/report",
        queries.ReportQuery,
        topics.report,
        answers.Report,
        "The verdict over a stretch of time, as `penstock report` shows it.",
    ),
    Resource(
        "/api/v1/hour",
        queries.HourQuery,
        topics.hour,
        answers.HourGate,
        "Whether agents and brokers are done with an hour of a topic.",
    ),
)
