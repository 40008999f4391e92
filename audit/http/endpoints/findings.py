"""Handles `/api/v1/findings`: the findings of one topic, or of all."""

from collections import Counter
from collections.abc import Iterator

from audit.api import answers, queries
from audit.http.endpoints.topic_lookup import findings, key_of, open_findings
from audit.reconciling.findings import Finding
from audit.reconciling.picture import TopicKey
from audit.service.service import Service, now_millis


def list_findings(service: Service, query: queries.FindingsQuery) -> answers.Findings:
    matching_pairs = [
        (key, finding)
        for key, finding in _findings(service, query)
        if query.host in {"", finding.host} and query.accepted in {None, not finding.is_open}
    ]
    by_kind = Counter(finding.kind.value for _, finding in matching_pairs)
    if query.kind is not None:
        matching_pairs = [pair for pair in matching_pairs if pair[1].kind is query.kind]
    shown_pairs = query.cut(matching_pairs)
    return answers.Findings(
        page=query.of(len(matching_pairs)),
        items=[finding for _, finding in shown_pairs],
        topics=[f"{key.cluster}/{key.topic}" for key, _ in shown_pairs],
        topic_ids=[key.topic_id for key, _ in shown_pairs],
        by_kind=dict(by_kind),
    )


def _findings(service: Service, query: queries.FindingsQuery) -> Iterator[tuple[TopicKey, Finding]]:
    """Findings of the whole retention, unless times are given. Without a topic, only incomplete
    topics are judged, and for accepted findings also topics with acceptances."""
    kept_millis = int(service.config.retention * 1000)
    period = queries.between(
        query, now=now_millis(), window=service.window_millis, otherwise=kept_millis
    )
    is_timed = query.from_time is not None or query.to_time is not None
    if query.topic:
        key = key_of(service, query.cluster, query.topic)
        yield from ((key, finding) for finding in findings(service, key, *period))
        return
    accepted_topics = service.reading.accepted_topics() if query.accepted else frozenset()
    for key in service.reading.topics():
        if query.cluster in {"", key.cluster}:
            is_accepted = key[:2] in accepted_topics
            topic_findings = (
                findings(service, key, *period) if is_accepted else open_findings(service, key)
            )
            for finding in topic_findings:
                if not is_timed or _overlaps(finding, period):
                    yield key, finding


def _overlaps(finding: Finding, between: tuple[int, int]) -> bool:
    if finding.from_time < 0:
        return True
    end = max(finding.to_time, finding.from_time + 1)
    return finding.from_time < between[1] and end > between[0]
