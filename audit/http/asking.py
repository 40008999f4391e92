"""What several answers need: which topic is meant, what is said of it over some time, which part of
a list is wanted."""

from collections.abc import Sequence
from typing import Final, TypeVar

from audit.deleted import settled
from audit.errors import BadQuery, NotNow, Unknown
from audit.http.answers import Page
from audit.http.queries import Paged
from audit.judged_hours import HOUR
from audit.judging import picture_of
from audit.picture import TopicKey, TopicPicture
from audit.reconciling.verdict import reconcile
from audit.service import Service, now_millis
from audit.verdicts import Finding, TopicVerdict

_MOST_KEPT_MILLIS: Final = 36 * HOUR  # of a verdict: a longer one is large
_MOST_FINDINGS: Final = 10_000

T = TypeVar("T")


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
    return picture_of(service.reading, service.config, key, (from_time, to_time), now)


def verdict(service: Service, key: TopicKey, from_time: int, to_time: int) -> TopicVerdict:
    def make() -> TopicVerdict:
        said = reconcile(picture(service, key, from_time, to_time))
        return settled(said) if service.standing.is_deleted(key) else said

    if to_time - from_time > _MOST_KEPT_MILLIS:
        return make()
    return service.kept(("verdict", key, from_time, to_time), make)


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


def page_of(query: Paged, total: int) -> Page:
    return Page(page=query.page, size=query.size, total=total)


def cut(items: Sequence[T], query: Paged) -> Sequence[T]:
    """The page that is asked for."""
    return items[(query.page - 1) * query.size : query.page * query.size]
