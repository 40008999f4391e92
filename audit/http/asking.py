"""What several answers need: which topic is meant, what is said of it over some time, and which of
its tables no load commits anything of, as loaders say it: every verdict of such a topic can be
complete, as nothing was asked of a destination that has never spoken of it."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from audit.api.answers import FailingLoad
from audit.api.verdicts import TopicVerdict, settled
from audit.cures import cure_for, cure_in, cure_words
from audit.errors import BadQuery, NotNow, Unknown
from audit.findings import Finding, State, worst
from audit.picture import TopicKey, TopicPicture
from audit.reconciling.verdict import reconcile
from audit.service.judge import picture_of
from audit.service.service import Service, now_millis
from audit.store.judged_hours import HOUR

_MOST_KEPT_MILLIS: Final = 36 * HOUR  # of a verdict: a longer one is large
_MOST_FINDINGS: Final = 10_000


def key_of(service: Service, cluster: str, topic: str) -> TopicKey:
    """The topic of that name that there is now, or the last one there was. Raises Unknown, or
    NotNow as long as it may still be read; BadQuery."""
    named = [
        each
        for each in service.reading.topics()
        if each.topic == topic and cluster in {"", each.cluster}
    ]
    if not named:
        if why_not := service.standing.why_not_ready():
            raise NotNow(f"nothing is known yet of a topic {topic[:300]}: {why_not}")
        where = f" in {cluster[:200]}" if cluster else ""
        raise Unknown(f"the audit knows of no topic {topic[:300]}{where}")
    clusters = sorted({each.cluster for each in named})
    if len(clusters) > 1:
        raise BadQuery(f"several clusters have that topic, say which: {', '.join(clusters)}")
    return next((each for each in named if is_current(service, each)), named[-1])


def is_current(service: Service, key: TopicKey) -> bool:
    """Whether the cluster has it just now, as far as is known."""
    standing = service.standing.clusters.get(key.cluster)
    return standing is not None and standing.topic_ids.get(key.topic) == key.topic_id


def now_of(service: Service, cluster: str) -> int:
    """The time at which the ledger of the cluster had been read to its end: of what happened since
    nothing can be known."""
    standing = service.standing.clusters.get(cluster)
    return standing.as_of if standing is not None and standing.as_of else now_millis()


def picture(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicPicture:
    now = now_of(service, key.cluster)
    clusters = service.standing.clusters
    as_of = {name: each.as_of for name, each in clusters.items() if each.read}
    between = from_time, to_time
    return picture_of(service.reading, service.config, key, between, now, as_of=as_of)


def verdict(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicVerdict:
    """Kept, as whoever looks at a topic asks for several things of it."""
    if to_time - from_time > _MOST_KEPT_MILLIS:
        return fresh_verdict(service, key, from_time, to_time)
    return service.kept(
        ("verdict", key, from_time, to_time),
        lambda: fresh_verdict(service, key, from_time, to_time),
    )


def fresh_verdict(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicVerdict:
    """Not kept: one of a day is 1.5 MB."""
    said = reconcile(picture(service, key, from_time, to_time))
    commands = service.config.commands
    cured = [replace(each, **cure_for(each, key, commands).fields) for each in said.findings]
    said = replace(said, findings=cured)
    return settled(said) if service.standing.is_deleted(key) else said


def findings(service: Service, key: TopicKey, from_time: int, to_time: int) -> Sequence[Finding]:
    def make() -> Sequence[Finding]:
        return verdict(service, key, from_time, to_time).findings[:_MOST_FINDINGS]

    return service.kept(("findings", key, from_time, to_time), make)


def open_findings(service: Service, key: TopicKey) -> Sequence[Finding]:
    """Those of all hours that were judged to have any. What merely waits is not looked at again."""

    def make() -> Sequence[Finding]:
        hours = service.reading.faulty_hours(key)
        return findings(service, key, hours[0], hours[-1] + HOUR) if hours else ()

    return service.kept(("open", key), make)


def failing_loads(service: Service, cluster: str = "") -> list[FailingLoad]:
    """What fails longest first. Of topics that were deleted nothing is loaded any more."""
    found, commands = service.reading.failing_loads(), service.config.commands
    there = service.standing.those_there(service.reading.topics()) if found else frozenset()
    return [
        replace(each, cure=cure_words(each.cure, commands), **cure_in(each.cure, commands).fields)
        for each in found
        if cluster in {"", each.cluster} and (each.cluster, each.topic) in there
    ]


def failing_of(service: Service, key: TopicKey) -> list[FailingLoad]:
    """None of one that was deleted, though another has its name now."""
    if service.standing.is_deleted(key):
        return []
    return [each for each in failing_loads(service, key.cluster) if each.topic == key.topic]


def failing_in(service: Service, verdict: TopicVerdict) -> list[FailingLoad]:
    """Those that what is judged has to do with: a day that was landed before loads began to fail
    is as good as it was."""
    loaded = {each.destination for each in verdict.tiers}
    return [
        each
        for each in failing_of(service, verdict.key)
        if each.since < verdict.to_time or (verdict.windows and each.destination not in loaded)
    ]


def not_landed(state: State, failing: Sequence[FailingLoad]) -> State:
    """Nothing of such a topic is complete."""
    return worst([state, State.PENDING]) if failing else state
