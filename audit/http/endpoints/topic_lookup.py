"""Looks up what several handlers need: a topic's key, its verdict and findings in a period, and its
failing loads. Failing loads count because verdicts expect a topic in a destination only once it was
loaded there, or a loader states that it takes the topic."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from audit.api.answers import FailingLoad
from audit.cures.fault_cures import cure_for, cure_in, cure_words
from audit.errors import BadQuery, NotNow, Unknown
from audit.reconciling.findings import Finding, State, worst
from audit.reconciling.picture import TopicKey, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict, settled
from audit.reconciling.verdict import reconcile
from audit.service.judge import picture_of
from audit.service.service import Service, now_millis
from audit.store.judged_hours import HOUR
from ground.similar_names import did_you_mean

_MOST_KEPT_MILLIS: Final = 36 * HOUR  # verdicts over a longer time are too large to keep
_MOST_FINDINGS: Final = 10_000


def key_of(service: Service, cluster: str, topic: str) -> TopicKey:
    """Returns the current topic of this name, else the last topic that had the name. Raises
    Unknown; NotNow while the ledger is still being read; BadQuery if the cluster is ambiguous."""
    known_topics = [key for key in service.reading.topics() if cluster in {"", key.cluster}]
    keys = [key for key in known_topics if key.topic == topic]
    if not keys:
        if why_not := service.standing.why_not_ready():
            raise NotNow(f"topic {topic[:300]} is not known yet: {why_not}")
        location = f" in {cluster[:200]}" if cluster else ""
        suggestion = did_you_mean(topic, {key.topic for key in known_topics})
        raise Unknown(f"the audit knows no topic {topic[:300]}{location}{suggestion}")
    clusters = sorted({key.cluster for key in keys})
    if len(clusters) > 1:
        raise BadQuery(
            f"several clusters have this topic, give one as `cluster`: {', '.join(clusters)}"
        )
    return next((key for key in keys if is_current(service, key)), keys[-1])


def former_ids(service: Service, key: TopicKey) -> list[str]:
    """Returns the ids of other topics that have, or had, the same name."""
    return [
        topic_key.topic_id
        for topic_key in service.reading.topics()
        if topic_key[:2] == key[:2] and topic_key.topic_id != key.topic_id
    ]


def is_current(service: Service, key: TopicKey) -> bool:
    """Whether the cluster has the topic, according to the latest poll."""
    state = service.standing.clusters.get(key.cluster)
    return state is not None and state.topic_ids.get(key.topic) == key.topic_id


def now_of(service: Service, cluster: str) -> int:
    """Returns the time up to which the cluster's ledger has been read."""
    state = service.standing.clusters.get(cluster)
    return state.as_of if state is not None and state.as_of else now_millis()


def picture(
    service: Service, key: TopicKey, from_time: int, to_time: int, *, is_deleted: bool = False
) -> TopicPicture:
    now = now_of(service, key.cluster)
    clusters = service.standing.clusters
    as_of = {name: cluster.as_of for name, cluster in clusters.items() if cluster.read}
    period = from_time, to_time
    return picture_of(
        *(service.reading, service.config, key, period, now), as_of=as_of, is_deleted=is_deleted
    )


def verdict(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicVerdict:
    """Returns a topic's verdict from the cache, because a view of a topic makes several requests
    about it."""
    if to_time - from_time > _MOST_KEPT_MILLIS:
        return fresh_verdict(service, key, from_time, to_time)
    return service.kept(
        ("verdict", key, from_time, to_time),
        lambda: fresh_verdict(service, key, from_time, to_time),
    )


def fresh_verdict(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicVerdict:
    """Returns a topic's verdict without caching it, because the verdict about a day takes 1.5
    MB."""
    is_deleted = service.standing.is_absent(key)
    verdict = reconcile(picture(service, key, from_time, to_time, is_deleted=is_deleted))
    commands, load_advice = service.config.commands, service.reading.load_advice(key)
    findings = [
        replace(finding, **cure_for(finding, key, commands, load_advice).fields)
        for finding in verdict.findings
    ]
    verdict = replace(verdict, findings=findings)
    return settled(verdict) if service.standing.is_deleted(key) else verdict


def findings(service: Service, key: TopicKey, from_time: int, to_time: int) -> Sequence[Finding]:
    def make() -> Sequence[Finding]:
        return verdict(service, key, from_time, to_time).findings[:_MOST_FINDINGS]

    return service.kept(("findings", key, from_time, to_time), make)


def open_findings(service: Service, key: TopicKey) -> Sequence[Finding]:
    """Returns the findings of all hours that were judged faulty. Pending hours are not judged
    again."""

    def make() -> Sequence[Finding]:
        hours = service.reading.faulty_hours(key)
        return findings(service, key, hours[0], hours[-1] + HOUR) if hours else ()

    return service.kept(("open", key), make)


def failing_loads(service: Service, cluster: str = "") -> list[FailingLoad]:
    """Returns tables whose loads fail, the oldest failure first. Deleted topics are left out."""
    loads, commands = service.reading.failing_loads(), service.config.commands
    existing_topics = (
        service.standing.those_there(service.reading.topics()) if loads else frozenset()
    )
    return [
        replace(load, cure=cure_words(load.cure, commands), **cure_in(load.cure, commands).fields)
        for load in loads
        if cluster in {"", load.cluster} and (load.cluster, load.topic) in existing_topics
    ]


def failing_of(service: Service, key: TopicKey) -> list[FailingLoad]:
    """Returns a topic's failing loads; none if it was deleted, even if another topic has its name
    now."""
    if service.standing.is_deleted(key):
        return []
    return [load for load in failing_loads(service, key.cluster) if load.topic == key.topic]


def failing_in(service: Service, verdict: TopicVerdict) -> list[FailingLoad]:
    """Returns the failing loads that affect a verdict. They do not affect days that were landed
    before they began to fail."""
    destinations = {tier.destination for tier in verdict.tiers}
    return [
        load
        for load in failing_of(service, verdict.key)
        if load.since < verdict.to_time
        or (verdict.windows and load.destination not in destinations)
    ]


def at_best_pending(state: State, *, when: bool) -> State:
    """Limits a state to pending, for a topic with failing loads or a period that has not begun."""
    return worst([state, State.PENDING]) if when else state
