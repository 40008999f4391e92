"""The audit's part of a status: the topics, agents, loads and alerts of one cluster.

An audit may watch several clusters; the one in question is recognised by its brokers. What changes
rarely is requested rarely.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from audit.alerting.answers import NotedAlert, NotedAlerts
from audit.api import answers
from audit.api.queries import MOST_ITEMS
from audit.reconciling.findings import State
from audit.reconciling.topic_verdict import Wait, WindowVerdict
from audit.store.judged_hours import HOUR
from ground.http.client import HttpClient, HttpUrl
from ground.http.security import HttpAccess
from ground.known_types import known_type
from penstock.status.part import NoStatus, body_of
from penstock.status.values import LoadStatus

_RARELY_S: Final = 5.0
_ONE_LOAD_MILLIS: Final = 10_000  # between two commits of the same load, of different topics
_MOST_LOADS: Final = 200
_MOST_OPEN_TOPICS: Final = 20
_MOST_ALERTS: Final = 20
_FINEST_MILLIS: Final = 1_000  # rounded up to the audit's windows

A = TypeVar("A")


Name = tuple[str, str]  # a topic's, with its cluster's


class OpenTopic(NamedTuple):
    """The time up to which a topic is complete, and in words the reports that the rest waits for,
    the longest wait first."""

    complete_until: int
    waits: str


class AuditPart(msgspec.Struct, frozen=True):
    topics: answers.TopicsAnswer
    agents: answers.AgentsAnswer
    loads: answers.Loads
    brokers: answers.BrokersAnswer
    open: Mapping[Name, OpenTopic]  # of the topics that were looked up
    headlines: Mapping[str, answers.Headline | None]  # by cluster
    health: Sequence[answers.HealthRow] = ()  # of programs, the worst first
    alerts: Sequence[NotedAlert] = ()  # raised ones, the newest first
    # By cluster and kind of program: how many are signed, unsigned, rejected.
    signatures: Mapping[str, dict[str, dict[str, int]]] = {}


class AuditQuery:
    """Requests an audit's part of the status. For one thread at a time."""

    def __init__(self, at: HttpUrl, *, within: float, access: HttpAccess | None = None) -> None:
        self._within = within
        self._client = HttpClient(at, access=access)
        self._kept: AuditPart | None = None
        self._kept_since = float("-inf")

    def close(self) -> None:
        self._client.close()

    def ask(self) -> AuditPart:
        """Requests the audit's part of the status. Raises NoStatus."""
        # The worst come first, where there are more than an answer has.
        topics = self._get("topics", answers.TopicsAnswer, size=MOST_ITEMS, sort="state")
        cached_part = self._kept
        if cached_part is not None and time.monotonic() - self._kept_since < _RARELY_S:
            headlines = dict.fromkeys(topics.clusters[:2], topics.headline)
            if len(headlines) == 1:
                return replace(cached_part, topics=topics, headlines=headlines)
            return replace(cached_part, topics=topics)
        part = AuditPart(
            topics,
            self._get("agents", answers.AgentsAnswer, size=MOST_ITEMS, sort="state"),
            self._get("loads", answers.Loads, size=_MOST_LOADS),
            self._get("brokers", answers.BrokersAnswer),
            self._open(topics),
            self._headlines(topics),
        )
        health = self._get("health", answers.HealthAnswer, size=MOST_ITEMS)
        self._kept = replace(
            part,
            health=health.items,
            signatures=self._signatures(topics.clusters, health),
            alerts=self._get("alerts", NotedAlerts, state="raised", size=_MOST_ALERTS).items,
        )
        self._kept_since = time.monotonic()
        return self._kept

    def _signatures(
        self, clusters: Sequence[str], health: answers.HealthAnswer
    ) -> dict[str, dict[str, dict[str, int]]]:
        if len(clusters) == 1:
            return {clusters[0]: health.signatures}
        return {
            cluster: self._get("health", answers.HealthAnswer, cluster=cluster, size=1).signatures
            for cluster in clusters
        }

    def _headlines(self, topics: answers.TopicsAnswer) -> dict[str, answers.Headline | None]:
        if len(topics.clusters) == 1:
            return {topics.clusters[0]: topics.headline}
        return {
            cluster: self._get("topics", answers.TopicsAnswer, cluster=cluster, size=1).headline
            for cluster in topics.clusters
        }

    def _open(self, topics: answers.TopicsAnswer) -> dict[Name, OpenTopic]:
        """Of a limited number of topics, as each takes a request."""
        open_topics = {}
        for topic in topics.items:
            hour = first_open_hour(topic)
            if hour < 0:
                open_topics[topic.cluster, topic.topic] = OpenTopic(topics.as_of, "")
            elif len(open_topics) < _MOST_OPEN_TOPICS:
                answer = self._get(
                    "topic",
                    answers.TopicAnswer,
                    cluster=topic.cluster,
                    topic=topic.topic,
                    **{"from": hour, "to": hour + HOUR, "step": _FINEST_MILLIS},
                )
                end = complete_until(answer.cells, hour + HOUR)
                open_topics[topic.cluster, topic.topic] = OpenTopic(end, waits_of(answer.waits))
        return open_topics

    def _get(self, path: str, kind: type[A], **parameters: str | int) -> A:
        query = urlencode(parameters)
        body = body_of(self._client, f"/api/v1/{path}?{query}", within=self._within)
        try:
            return msgspec.json.decode(body, type=known_type(kind))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoStatus(f"the server is not an audit of this release: {error}") from None


def first_open_hour(topic: answers.TopicRow) -> int:
    """Returns the topic's first incomplete hour; -1 if there is none."""
    for index, state in enumerate(topic.states):
        if state is not State.COMPLETE:
            return topic.from_hour + index * HOUR
    return -1


def complete_until(cells: Sequence[WindowVerdict], otherwise: int) -> int:
    """Returns the start of the first incomplete window."""
    return min(
        (cell.start for cell in cells if cell.state is not State.COMPLETE), default=otherwise
    )


def waits_of(waits: Sequence[Wait]) -> str:
    dated_waits = sorted((wait for wait in waits if wait.since >= 0), key=lambda wait: wait.since)
    return "; ".join(
        wait.words for wait in [*dated_waits, *(wait for wait in waits if wait.since < 0)]
    )


def cluster_of(audit: AuditPart, brokers: Collection[tuple[int, str]]) -> str:
    """Returns the audit's name for the cluster of these brokers, or for its only cluster; empty if
    there is neither."""
    for broker in audit.brokers.brokers:
        if (broker.id, broker.address) in brokers:
            return broker.cluster
    return audit.topics.clusters[0] if len(audit.topics.clusters) == 1 else ""


def landed_of(audit: AuditPart, cluster: str) -> Mapping[str, int]:
    """Returns the number of landed offsets by topic, at the destination that has the fewest. For a
    recreated topic, only its latest incarnation counts."""
    rows = [row for row in audit.brokers.consumers if row.cluster == cluster]
    rows.sort(key=lambda row: row.read)
    latest = {(row.topic, row.consumer): row.upto for row in rows}
    landed: dict[str, int] = {}
    for (topic, _), offsets in latest.items():
        landed[topic] = min(offsets, landed.get(topic, offsets))
    return landed


def last_load(audit: AuditPart, cluster: str) -> LoadStatus | None:
    """Returns the newest load: a series of commits, one for each topic, in quick succession."""
    rows = [load for load in audit.loads.items if load.cluster == cluster]
    if not rows:
        return None
    commits = list(_commits_of_newest(rows))
    return LoadStatus(
        destination=rows[0].destination,
        time=rows[0].time,
        topics=len(commits),
        rows=sum(load.rows for load in commits),
    )


def _commits_of_newest(rows: Sequence[answers.LoadRow]) -> Iterator[answers.LoadRow]:
    """Its commits; `rows` has the newest first."""
    newest_row, seen_topics = rows[0], set[str]()
    previous_time = newest_row.time
    for row in rows:
        if row.destination != newest_row.destination:
            continue
        if row.topic in seen_topics or previous_time - row.time > _ONE_LOAD_MILLIS:
            return
        seen_topics.add(row.topic)
        previous_time = row.time
        yield row
