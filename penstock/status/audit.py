"""What an audit says of the topics, agents and loads of the cluster that is asked.

An audit may watch several clusters: which of them is meant is told by its brokers. What changes
seldom is asked for seldom.
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
from penstock.status.part import NoStatus, said_by
from penstock.status.values import LoadStanding

_SELDOM_S: Final = 5.0
_ONE_LOAD_MILLIS: Final = 10_000  # between what one load commits of one topic and of the next
_MOST_LOADS: Final = 200
_MOST_LOOKED_INTO: Final = 20
_MOST_ALERTS: Final = 20
_FINEST_MILLIS: Final = 1_000  # rounded up to the audit's windows

A = TypeVar("A")


Name = tuple[str, str]  # a topic's, with its cluster's


class OpenTopic(NamedTuple):
    """Up to when everything of a topic is complete, and what the rest waits for, in words; what
    has waited longest first."""

    complete_until: int
    waits: str


class AuditPart(msgspec.Struct, frozen=True):
    topics: answers.TopicsAnswer
    agents: answers.AgentsAnswer
    loads: answers.Loads
    brokers: answers.BrokersAnswer
    open: Mapping[Name, OpenTopic]  # of those topics of which it was asked
    headlines: Mapping[str, answers.Headline | None]  # by cluster
    unwell: Sequence[answers.HealthRow] = ()  # programs with something wrong, the worst first
    alerts: Sequence[NotedAlert] = ()  # that are raised, the newest first


class AskingAudit:
    """One thread at a time."""

    def __init__(self, at: HttpUrl, *, within: float, access: HttpAccess | None = None) -> None:
        self._within = within
        self._client = HttpClient(at, access=access)
        self._kept: AuditPart | None = None
        self._kept_since = float("-inf")

    def close(self) -> None:
        self._client.close()

    def ask(self) -> AuditPart:
        """Raises NoStatus."""
        # The worst come first, where there are more than an answer has.
        topics = self._get("topics", answers.TopicsAnswer, size=MOST_ITEMS, sort="state")
        kept = self._kept
        if kept is not None and time.monotonic() - self._kept_since < _SELDOM_S:
            one = dict.fromkeys(topics.clusters[:2], topics.headline)
            return replace(kept, topics=topics, headlines=one if len(one) == 1 else kept.headlines)
        self._kept = AuditPart(
            topics,
            self._get("agents", answers.AgentsAnswer, size=MOST_ITEMS, sort="state"),
            self._get("loads", answers.Loads, size=_MOST_LOADS),
            self._get("brokers", answers.BrokersAnswer),
            self._open(topics),
            self._headlines(topics),
            [each for each in self._health().items if each.kind],
            self._get("alerts", NotedAlerts, state="raised", size=_MOST_ALERTS).items,
        )
        self._kept_since = time.monotonic()
        return self._kept

    def _health(self) -> answers.HealthAnswer:
        return self._get("health", answers.HealthAnswer, size=MOST_ITEMS)

    def _headlines(self, topics: answers.TopicsAnswer) -> dict[str, answers.Headline | None]:
        if len(topics.clusters) == 1:
            return {topics.clusters[0]: topics.headline}
        return {
            cluster: self._get("topics", answers.TopicsAnswer, cluster=cluster, size=1).headline
            for cluster in topics.clusters
        }

    def _open(self, topics: answers.TopicsAnswer) -> dict[Name, OpenTopic]:
        """Of some topics: each costs a question."""
        found = {}
        for each in topics.items:
            hour = first_open_hour(each)
            if hour < 0:
                found[each.cluster, each.topic] = OpenTopic(topics.as_of, "")
            elif len(found) < _MOST_LOOKED_INTO:
                answer = self._get(
                    "topic",
                    answers.TopicAnswer,
                    cluster=each.cluster,
                    topic=each.topic,
                    **{"from": hour, "to": hour + HOUR, "step": _FINEST_MILLIS},
                )
                until = complete_until(answer.cells, hour + HOUR)
                found[each.cluster, each.topic] = OpenTopic(until, waits_of(answer.waits))
        return found

    def _get(self, path: str, kind: type[A], **parameters: str | int) -> A:
        query = urlencode(parameters)
        body = said_by(self._client, f"/api/v1/{path}?{query}", within=self._within)
        try:
            return msgspec.json.decode(body, type=known_type(kind))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoStatus(f"the server is not an audit of this release: {error}") from None


def first_open_hour(topic: answers.TopicRow) -> int:
    """The first of which not everything is complete; -1 if there is none."""
    for index, state in enumerate(topic.states):
        if state is not State.COMPLETE:
            return topic.from_hour + index * HOUR
    return -1


def complete_until(cells: Sequence[WindowVerdict], otherwise: int) -> int:
    """Where the first begins that is not complete."""
    return min((e.start for e in cells if e.state is not State.COMPLETE), default=otherwise)


def waits_of(waits: Sequence[Wait]) -> str:
    known = sorted((each for each in waits if each.since >= 0), key=lambda each: each.since)
    return "; ".join(each.words for each in [*known, *(e for e in waits if e.since < 0)])


def cluster_of(audit: AuditPart, brokers: Collection[tuple[int, str]]) -> str:
    """The name by which the audit knows the cluster of these brokers, or the only one it knows;
    empty if it cannot be told."""
    for each in audit.brokers.brokers:
        if (each.id, each.address) in brokers:
            return each.cluster
    return audit.topics.clusters[0] if len(audit.topics.clusters) == 1 else ""


def landed_of(audit: AuditPart, cluster: str, destination: str) -> Mapping[str, int]:
    """Offsets that have landed there, by topic; of a topic that was made anew the latest."""
    rows = [
        each
        for each in audit.brokers.consumers
        if (each.cluster, each.consumer) == (cluster, destination)
    ]
    return {each.topic: each.upto for each in sorted(rows, key=lambda each: each.read)}


def last_load(audit: AuditPart, cluster: str) -> LoadStanding | None:
    """Each topic is committed by itself: what follows soon after one another is one load."""
    rows = [each for each in audit.loads.items if each.cluster == cluster]
    if not rows:
        return None
    together = list(_together(rows))
    return LoadStanding(
        destination=rows[0].destination,
        time=rows[0].time,
        topics=len(together),
        rows=sum(each.rows for each in together),
    )


def _together(rows: Sequence[answers.LoadRow]) -> Iterator[answers.LoadRow]:
    """The newest first, as they come."""
    newest, seen = rows[0], set[str]()
    before = newest.time
    for each in rows:
        if each.destination != newest.destination:
            continue
        if each.topic in seen or before - each.time > _ONE_LOAD_MILLIS:
            return
        seen.add(each.topic)
        before = each.time
        yield each
