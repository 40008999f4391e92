"""The headline of `/api/v1/topics`: the worst findings of some hours, over all topics.

Findings cost a verdict of each topic that has any, and each open page asks for them whenever
something changes. So only the topics with the worst faults are judged, and what was found is kept
for many times as long as that took: on a large site it is a few seconds old, on a small one new.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from audit.api.answers import FailingLoad, Headline, TopicFinding
from audit.findings import WORST_FIRST, Kinds, State, summed, worst
from audit.headline import JudgedTopics, headline
from audit.http.asking import findings
from audit.service.service import KeptFindings, Service
from audit.store.judged_hours import HOUR
from audit.store.topics.topics import FaultyTopic

_MOST_TOPICS: Final = 5  # that are judged for it
_KEPT_FACTOR: Final = 10


def headline_of(
    service: Service,
    cluster: str,
    hours: range,
    by_state: Mapping[State, int],
    failing: Sequence[FailingLoad],
    *,
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
    return headline(
        JudgedTopics(
            state=state,
            findings=_worst(service, cluster, faulty, hours) if state.is_fault else (),
            kinds=summed(count for each in faulty for count in each.kinds),
            failing_loads=failing,
            waits=waits,
            calm=calm,
            complete_until=_complete_until(service, cluster),
            accepted_unknown=partly_unseen,
        )
    )


def _complete_until(service: Service, cluster: str) -> int:
    """Where the first window begins that still waits."""
    waiting = [
        each.pending_since
        for each in service.figures
        if each.pending_since >= 0 and cluster in {"", each.key.cluster}
    ]
    return min(waiting) - service.window_millis if waiting else -1


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
