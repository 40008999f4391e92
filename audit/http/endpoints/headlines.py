"""Makes the headline of `/api/v1/topics` from the worst findings of several hours, over all topics.

Findings cost a verdict for each faulty topic, and every open page requests them after each change.
So only the topics with the worst faults are judged, and the result is cached for many times as long
as that took: a few seconds on a large site, hardly at all on a small one.
"""

import time
from collections.abc import Mapping, Sequence, Set
from typing import Final

from audit.alerting.conditions import AWAY, CLOCK, LATE, SILENT
from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.headline import JudgedTopics, Unreported, headline
from audit.http.endpoints.topic_lookup import findings
from audit.programs import DISK, INPUTS, LOADER, MIRROR
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import WORST_FIRST, Kinds, State, worst
from audit.reconciling.picture import TierKind, TopicKey
from audit.service.service import KeptFindings, Service
from audit.store.judged_hours import HOUR, TopicFigures
from audit.store.topics.topics import FaultyTopic

_MOST_TOPICS: Final = 5  # judged for a headline
_KEPT_FACTOR: Final = 10
_PACES: Final = 3  # windows in which every program but a loader reports a window
# Alerts about programs that hold up lines, or reports about them.
_HOLDING_UP: Final = frozenset({AWAY, CLOCK, INPUTS, LATE, LOADER, MIRROR, SILENT})


def headline_of(
    service: Service,
    cluster: str,
    hours: range,
    by_state: Mapping[State, int],
    failing: Sequence[FailingLoad],
    *,
    now: int,
    waits: bool,
    accepted: Kinds,
    dead: Mapping[TopicKey, DeadLetters],
) -> Headline:
    faulty_topics = service.reading.faulty_topics(cluster, hours.start, hours.stop)
    held_up = _held_up(service, cluster)
    state = worst(state for state, topics in by_state.items() if topics)
    calm_words = ""
    if not sum(by_state.values()):
        state, calm_words = State.PENDING, "nothing to judge yet"
    elif state is State.EMPTY:
        calm_words = f"no events in the last {len(hours)} hours"
    complete_until = _complete_until(service, cluster)
    return headline(
        JudgedTopics(
            state=state,
            findings=_worst(service, cluster, faulty_topics, hours) if state.is_fault else (),
            kinds={topic.key: topic.kinds for topic in faulty_topics},
            failing_loads=failing,
            waits=waits,
            calm=calm_words,
            unreported=None if calm_words or state.is_fault else _unreported(held_up),
            loaded=_is_loaded(service, cluster),
            complete_until=complete_until,
            settled=is_settled(service, cluster, now),
            held_up=bool(held_up),
            today=now,
            accepted=accepted,
            dead=dead,
        )
    )


def is_settled(service: Service, cluster: str, now: int) -> bool:
    """Whether the ledgers are read up to now, no program holds up lines, no agent is far behind,
    and no window has waited unusually long: longer than `alerts.late` for a loader, longer than a
    few windows for other programs."""
    state, config = service.standing, service.config
    states = state.clusters.values()
    is_read = all(state.read and not state.unreachable for state in states)
    if not is_read or state.too_old(now) or state.unjudged or _held_up(service, cluster):
        return False
    pending_millis = _PACES * service.window_millis + int(config.grace * 1000)
    late_millis = int(config.alerts.late * 1000)
    return _done_until(service, cluster) > now - pending_millis and all(
        topic.pending_since > now - late_millis
        and not 0 <= topic.unreported_since <= now - pending_millis
        for topic in _waiting(service, cluster)
    )


def _complete_until(service: Service, cluster: str) -> int:
    """The time before which every line is accounted for; 0 if unknown."""
    waiting_since = [
        topic.pending_since - service.window_millis for topic in _waiting(service, cluster)
    ]
    return min([_done_until(service, cluster), *waiting_since])


def _done_until(service: Service, cluster: str) -> int:
    """The time up to which all agents have shipped everything; 0 if unknown."""
    done_until = service.done_until
    clusters = [cluster] if cluster else service.standing.clusters
    return min((done_until.get(name, 0) for name in clusters), default=0)


def _waiting(service: Service, cluster: str) -> list[TopicFigures]:
    return [
        topic
        for topic in service.figures
        if topic.pending_since >= 0 and cluster in {"", topic.key.cluster}
    ]


def _is_loaded(service: Service, cluster: str) -> bool:
    """Whether a loader has ever reported. True until there are figures."""
    return not service.figures or any(
        tier.kind is TierKind.HDFS
        for topic in service.figures
        if cluster in {"", topic.key.cluster}
        for tier in topic.events
    )


def _held_up(service: Service, cluster: str) -> set[str]:
    """Kinds of the conditions that hold up lines, raised or not yet."""
    return {
        key.kind
        for key, condition in service.alert_conditions.items()
        if (key.kind in _HOLDING_UP or (key.kind == DISK and condition.leaderless))
        and (cluster in {"", key.cluster} or not key.cluster)
    }


def _unreported(held_up: Set[str]) -> Unreported | None:
    reasons = {DISK: Unreported.UNWRITABLE, SILENT: Unreported.SILENT, INPUTS: Unreported.UNREAD}
    return next((reason for kind, reason in reasons.items() if kind in held_up), None)


def _worst(
    service: Service, cluster: str, faulty: Sequence[FaultyTopic], hours: range
) -> Sequence[TopicFinding]:
    key = (cluster, len(hours))
    kept_findings = service.worst_findings.get(key)
    now = time.monotonic()
    if kept_findings is not None and now < kept_findings.until:
        return kept_findings.findings
    first_topics = sorted(faulty, key=lambda topic: _severity(topic.kinds))[:_MOST_TOPICS]
    topic_findings = [
        TopicFinding(
            cluster=topic.key.cluster,
            topic=topic.key.topic,
            topic_id=topic.key.topic_id,
            finding=finding,
        )
        for topic in first_topics
        for finding in findings(service, topic.key, topic.first_hour, topic.last_hour + HOUR)
        if finding.is_open
    ]
    seconds = time.monotonic() - now
    service.worst_findings[key] = KeptFindings(topic_findings, now + seconds * _KEPT_FACTOR)
    return topic_findings


def _severity(kinds: Kinds) -> tuple[int, int]:
    """Sorts the worst first, many events before few."""
    return min((WORST_FIRST.index(count.kind), -count.events) for count in kinds)
