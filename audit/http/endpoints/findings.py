"""Handles `/api/v1/findings`: the findings of one topic, or of all."""

from collections import Counter
from collections.abc import Iterator

from audit.api import answers, queries
from audit.http.endpoints.topic_lookup import findings, key_of, open_findings
from audit.reconciling.findings import Finding
from audit.reconciling.picture import TopicKey
from audit.service.service import Service, now_millis


def list_findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    matching = [
        (key, finding)
        for key, finding in _findings(service, query)
        if query.host in {"", finding.host} and query.accepted in {None, not finding.is_open}
    ]
    by_kind = Counter(finding.kind.value for _, finding in matching)
    if query.kind is not None:
        matching = [pair for pair in matching if pair[1].kind is query.kind]
    shown = query.cut(matching)
    return answers.Findings(
        page=query.of(len(matching)),
        items=[finding for _, finding in shown],
        topics=[f"{key.cluster}/{key.topic}" for key, _ in shown],
        topic_ids=[key.topic_id for key, _ in shown],
        by_kind=dict(by_kind),
    )


def _findings(service: Service, query: queries.FindingsQuery) -> Iterator[tuple[TopicKey, Finding]]:
    """Findings of the whole retention, unless times are given. Without a topic, only incomplete
    topics are judged, and for accepted findings also topics with acceptances."""
    kept = int(service.config.retention * 1000)
    between = queries.between(query, now=now_millis(), window=service.window_millis, otherwise=kept)
    timed = query.from_time is not None or query.to_time is not None
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        yield from ((key, finding) for finding in findings(service, key, *between))
        return
    accepted = service.reading.accepted_topics() if query.accepted else frozenset()
    for key in service.reading.topics():
        if query.cluster in {"", key.cluster}:
            is_accepted = key[:2] in accepted
            known = findings(service, key, *between) if is_accepted else open_findings(service, key)
            for finding in known:
                if not timed or _overlaps(finding, between):
                    yield key, finding


def _overlaps(finding: Finding, between: tuple[int, int]) -> bool:
    if finding.from_time < 0:
        return True
    last = max(finding.to_time, finding.from_time + 1)
    return finding.from_time < between[1] and last > between[0]
