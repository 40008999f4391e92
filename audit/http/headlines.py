"""The headline of `/api/v1/topics`: the worst findings of some hours, over all topics.

Findings cost a verdict of each topic that has any, and each open page asks for them whenever
something changes. So only the topics with the worst faults are judged, and what was found is kept
for many times as long as that took: on a large site it is a few seconds old, on a small one new.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from audit.alerting.conditions import AWAY, CLOCK, LATE, SILENT
from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.findings import WORST_FIRST, Kinds, State, summed, worst
from audit.headline import JudgedTopics, headline
from audit.http.asking import findings
from audit.picture import TierKind
from audit.programs import LOADER, MIRROR
from audit.service.service import KeptFindings, Service
from audit.store.fleet.agents import patience
from audit.store.judged_hours import HOUR, TopicFigures
from audit.store.topics.topics import FaultyTopic

_MOST_TOPICS: Final = 5  # that are judged for it
_KEPT_FACTOR: Final = 10
_SOON_MILLIS: Final = 300_000
# Alerts about programs without which lines wait, or nothing is known of them.
_HOLDING_UP: Final = frozenset({AWAY, CLOCK, LATE, LOADER, MIRROR, SILENT})


def headline_of(
    service: Service,
    cluster: str,
    hours: range,
    by_state: Mapping[State, int],
    failing: Sequence[FailingLoad],
    *,
    now: int,
    waits: bool,
    partly_unseen: bool,
) -> Headline:
    faulty = service.reading.faulty_topics(cluster, hours.start, hours.stop)
    state = worst(state for state, topics in by_state.items() if topics)
    calm = ""
    if not sum(by_state.values()):
        state, calm = State.PENDING, "nothing to judge yet"
    elif state is State.EMPTY:
        calm = f"no events in the last {len(hours)} hours"
    elif state is State.COMPLETE and not _is_loaded(service, cluster):
        calm = "every line has reached the brokers"
    if not state.is_fault and state is not State.EMPTY and SILENT in _held_up(service, cluster):
        state, calm = State.PENDING, "an agent is silent; all that was reported is accounted for"
    reported = _reported_until(service, cluster, now) if state is State.PENDING else now
    return headline(
        JudgedTopics(
            state=state,
            findings=_worst(service, cluster, faulty, hours) if state.is_fault else (),
            kinds=summed(count for each in faulty for count in each.kinds),
            failing_loads=failing,
            waits=waits,
            calm=calm,
            complete_until=min(_complete_until(service, cluster), reported),
            settled=reported > now - _soon(service) and is_settled(service, cluster, now),
            held_up=bool(_held_up(service, cluster)),
            today=now,
            accepted_unknown=partly_unseen,
        )
    )


def is_settled(service: Service, cluster: str, now: int) -> bool:
    """Whether the ledgers are known up to now, no program that lines need is in trouble, and no
    window waits for longer than is usual: for a loader as long as `alerts.late` allows, for others
    a few windows."""
    standing, config = service.standing, service.config
    clusters = standing.clusters.values()
    is_read = all(each.read and not each.unreachable for each in clusters)
    if not is_read or standing.too_old(now) or standing.unjudged or _held_up(service, cluster):
        return False
    soon = _soon(service)
    late = int(config.alerts.late * 1000)
    return all(
        each.pending_since > now - late and not 0 <= each.unreported_since <= now - soon
        for each in _waiting(service, cluster)
    )


def _soon(service: Service) -> int:
    """In which everybody but a loader reports a window, in milliseconds."""
    return max(_SOON_MILLIS, 3 * service.window_millis) + int(service.config.grace * 1000)


def _reported_until(service: Service, cluster: str, now: int) -> int:
    """Up to when agents have shipped everything; now without any agent."""
    asked = patience(service.config, now, by_pace=True)

    def first() -> int | None:
        rows = service.reading.agents_of(cluster, asked).values()
        return min((row.until for row in rows if row.state != "retired"), default=None)

    found = service.kept(("reported until", cluster), first)
    return now if found is None else found


def _complete_until(service: Service, cluster: str) -> int:
    """Where the first window begins that still waits."""
    waiting = [each.pending_since for each in _waiting(service, cluster)]
    return min(waiting) - service.window_millis if waiting else -1


def _waiting(service: Service, cluster: str) -> list[TopicFigures]:
    return [
        each
        for each in service.figures
        if each.pending_since >= 0 and cluster in {"", each.key.cluster}
    ]


def _is_loaded(service: Service, cluster: str) -> bool:
    """Whether a loader has ever reported; so it is taken until there are figures."""
    return not service.figures or any(
        tier.kind is TierKind.HDFS
        for each in service.figures
        if cluster in {"", each.key.cluster}
        for tier in each.events
    )


def _held_up(service: Service, cluster: str) -> set[str]:
    """Kinds of conditions, raised or not yet."""
    return {
        key.kind
        for key in service.alert_conditions
        if key.kind in _HOLDING_UP and (cluster in {"", key.cluster} or not key.cluster)
    }


def _worst(
    service: Service, cluster: str, faulty: Sequence[FaultyTopic], hours: range
) -> Sequence[TopicFinding]:
    asked = (cluster, len(hours))
    kept = service.worst_findings.get(asked)
    now = time.monotonic()
    if kept is not None and now < kept.until:
        return kept.findings
    first = sorted(faulty, key=lambda each: _severity(each.kinds))[:_MOST_TOPICS]
    found = [
        TopicFinding(
            cluster=each.key.cluster,
            topic=each.key.topic,
            topic_id=each.key.topic_id,
            finding=finding,
        )
        for each in first
        for finding in findings(service, each.key, each.first_hour, each.last_hour + HOUR)
        if not finding.accepted
    ]
    took = time.monotonic() - now
    service.worst_findings[asked] = KeptFindings(found, now + took * _KEPT_FACTOR)
    return found


def _severity(kinds: Kinds) -> tuple[int, int]:
    """For sorting: the worst first, many events before few."""
    return min((WORST_FIRST.index(each.kind), -each.events) for each in kinds)
