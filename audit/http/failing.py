"""Tables of which no load commits anything, as loaders say it: every verdict of such a topic can be
complete, as nothing was asked of a destination that has never spoken of it."""

from collections.abc import Sequence

from audit.http.answers import FailingLoad
from audit.picture import TopicKey
from audit.service import Service
from audit.verdicts import State, TopicVerdict, worst


def failing_loads(service: Service, cluster: str = "") -> list[FailingLoad]:
    """What fails longest first. Of topics that were deleted nothing is loaded any more."""

    found = service.reading.failing_loads()
    there = service.standing.those_there(service.reading.topics()) if found else frozenset()
    return [
        FailingLoad(**each._asdict())
        for each in found
        if cluster in {"", each.cluster} and (each.cluster, each.topic) in there
    ]


def of_topic(service: Service, key: TopicKey) -> list[FailingLoad]:
    """None of one that was deleted, though another has its name now."""
    if service.standing.is_deleted(key):
        return []
    return [each for each in failing_loads(service, key.cluster) if each.topic == key.topic]


def of_verdict(service: Service, verdict: TopicVerdict) -> list[FailingLoad]:
    """Those that what is judged has to do with: a day that was landed before loads began to fail
    is as good as it was."""
    loaded = {each.destination for each in verdict.tiers}
    return [
        each
        for each in of_topic(service, verdict.key)
        if each.since < verdict.to_time or (verdict.windows and each.destination not in loaded)
    ]


def not_landed(state: State, failing: Sequence[FailingLoad]) -> State:
    """Nothing of such a topic is complete."""
    return worst([state, State.PENDING]) if failing else state
