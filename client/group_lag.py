"""How far groups are behind: what is in the logs behind the offsets that they have committed.

Messages are counted by offsets: those from the committed one on, or from the log's beginning where
that one is gone already, up to the end of what consumers see. Seconds are the age of the first
record that is not committed, by its timestamp; 0 where nothing is left. Where it may not be read,
or too much would have to be, that is looked for by time, and known about.

Leaders are asked for many partitions at once. What cannot be known of a partition (its broker is
away, it has no leader, its topic is deleted or not ours to see) is said of that partition; the
others are not kept from an answer.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from client.brokers import Brokers
from client.committed import READ_UNCOMMITTED
from client.connection import BrokerConnection
from client.delivery import TopicPartition
from client.errors import ClientError, ErrorCode, Refused, UnknownTopic, refusal
from client.patience import Pauses
from client.rights import on_topic
from client.written_about import Reached, written_about
from client.written_at import NothingLeft, Place, Unknown, Written, written_at
from wire.acls import Operation
from wire.messages import list_offsets, metadata
from wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from wire.messages.metadata import NOT_ASKED, MetadataRequest, MetadataRequestTopic

MOST_BYTES: Final = 64 * 1024 * 1024
WITHIN_SECONDS: Final = 10.0
_A_REQUEST: Final = 5_000  # partitions
_ATTEMPTS: Final = 3  # while leaders move
_NO_TIME: Final = "it is not known when the first of these was written"


class HasOffset(Protocol):
    """The next offset that a group wants to read."""

    @property
    def offset(self) -> int: ...


GroupPartition = tuple[str, TopicPartition]


class Lag(msgspec.Struct, frozen=True):
    """Of one group in one partition. What is not known is None, and `unknown` says why.

    `committed` may lie before `begins`, the log's first offset (what is between was removed before
    the group had read it), and behind `end` (the log is another one, or has lost its end).
    """

    committed: int
    begins: int | None = None
    end: int | None = None
    messages: int | None = None
    since: int | None = None  # the timestamp of the first record that is not committed
    seconds: float | None = None
    unknown: str = ""


def lag(
    brokers: Brokers,
    committed: Mapping[str, Mapping[TopicPartition, HasOffset]],
    now: float,
    *,
    before: Mapping[GroupPartition, Lag] | None = None,
    most_bytes: int = MOST_BYTES,
    within: float = WITHIN_SECONDS,
) -> dict[GroupPartition, Lag]:
    """By group and partition, at the time `now`, in seconds since 1970.

    `before` is what was found last: records whose time is known from then are not read again. A
    broker that has not answered `within` so many seconds is not asked any more. No more than about
    `most_bytes` are read to learn when records were written; of others that is known about. Raises
    a ClientError if no broker can be reached at all.
    """
    offsets = {
        (group, target): each.offset
        for group, of_group in committed.items()
        for target, each in of_group.items()
        if each.offset >= 0
    }
    survey = _Survey(brokers, within)
    ends = survey.listed({target for _, target in offsets}, LATEST)
    behind = {key for key, offset in offsets.items() if offset < ends.get(key[1], -1)}
    begins = survey.listed({target for _, target in behind}, EARLIEST)
    first = {
        key: Place(key[1], max(offsets[key], begins[key[1]])) for key in behind if key[1] in begins
    }
    known = _known_before(first, before or {})
    unread = {place for place in first.values() if place not in known}
    times = known | survey.written(unread, most_bytes, now)
    found = {}
    for key, offset in offsets.items():
        target = key[1]
        end = ends.get(target)
        if end is not None and offset >= end:
            found[key] = Lag(offset, None, end, 0, None, 0.0)
        elif end is None or key not in first:
            found[key] = Lag(offset, None, end, unknown=survey.why(target))
        else:
            place = first[key]
            written = times.get(place, Unknown(f"as {survey.why(target)}"))
            at = Lag(offset, begins[target], end, max(0, end - place.offset))
            found[key] = _since(at, written, now)
    return found


def _since(at: Lag, written: Written, now: float) -> Lag:
    match written:
        case Unknown(why):
            return replace(at, unknown=f"{_NO_TIME}, {why}")
        case NothingLeft():
            return replace(at, seconds=0.0)
        case since:
            return replace(at, since=since, seconds=max(0.0, now - since / 1000))


def _known_before(
    first: Mapping[GroupPartition, Place], before: Mapping[GroupPartition, Lag]
) -> dict[Place, Written]:
    """The timestamps of records that are still the first ones not to be committed."""
    known: dict[Place, Written] = {}
    for key, place in first.items():
        last = before.get(key)
        if last is None or last.since is None or last.begins is None:
            continue
        if max(last.committed, last.begins) == place.offset:
            known[place] = last.since
    return known


class _Survey:
    """What leaders are asked, and what stood in the way."""

    def __init__(self, brokers: Brokers, within: float) -> None:
        self._brokers = brokers
        self._within = within
        self._away: dict[int, ClientError] = {}
        self._errors: dict[TopicPartition, ClientError] = {}

    def why(self, target: TopicPartition) -> str:
        """Why something of this partition is not known."""
        return str(self._errors.get(target, f"{target}: no answer"))

    def listed(self, targets: set[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The offset for a timestamp, which may be one of the special ones."""
        found: dict[TopicPartition, int] = {}
        pauses = Pauses()
        missing = set(targets)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(pauses.next())
            for leader, led in self._by_leader(missing).items():
                listed = self._list(leader, dict.fromkeys(led, timestamp))
                found |= {target: each.offset for target, each in listed.items()}
            missing = {each for each in targets if each not in found and self._may_pass(each)}
            if not missing:
                break
        return found

    def written(
        self, places: Collection[Place], most_bytes: int, now: float
    ) -> dict[Place, Written]:
        """When the records there were written: as they say, where they may be read."""
        of_target: dict[TopicPartition, list[Place]] = {}
        for place in places:
            of_target.setdefault(place.target, []).append(place)
        readable = self._readable({target.topic for target in of_target})
        found: dict[Place, Written] = {}
        for leader, led in self._by_leader(of_target).items():
            wanted = [place for target in led for place in of_target[target]]
            read = [place for place in wanted if place.target.topic in readable]
            try:
                if read:
                    found |= written_at(
                        self._connection(leader),
                        self._brokers.who,
                        read,
                        most_bytes=most_bytes * len(read) // len(places),
                        within=self._within,
                    )
            except ClientError as error:
                self._failed(leader, led, error)
            others = [place for place in wanted if place not in found]
            if leader not in self._away:
                found |= written_about(partial(self._list, leader), others, now)
        return found

    def _readable(self, topics: Collection[str]) -> set[str]:
        """To fetch from the others would be refused, and a line in a broker's log."""
        if not topics:
            return set()
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in sorted(topics)),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self._brokers.call_any(metadata.API, request)
        return {
            each.name
            for each in answer.topics
            if each.name is not None
            and (
                each.topic_authorized_operations == NOT_ASKED  # by a broker that is too old
                or each.topic_authorized_operations & (1 << Operation.READ)
            )
        }

    def _by_leader(self, targets: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Asks the cluster who leads them now."""
        wanted = sorted(targets)
        found: dict[int, list[TopicPartition]] = {}
        if not wanted:
            return found
        topics = {target.topic for target in wanted}
        known = self._brokers.persist(lambda: self._brokers.refresh(topics))
        for target in wanted:
            try:
                if not known.has(target.topic):
                    raise UnknownTopic(f"no topic {target.topic}")
                leader = known.topic(target.topic).partition(target.partition).leader
            except ClientError as error:
                self._errors[target] = error
            else:
                found.setdefault(leader, []).append(target)
        return found

    def _list(
        self, leader: int, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Reached]:
        targets = list(times)
        found: dict[TopicPartition, Reached] = {}
        for at in range(0, len(targets), _A_REQUEST):
            some = targets[at : at + _A_REQUEST]
            try:
                connection = self._connection(leader)
                request = _request({target: times[target] for target in some})
                answer = connection.call(list_offsets.API, request, within=self._within)
            except ClientError as error:
                self._failed(leader, some, error)
                continue
            for topic in answer.topics:
                for each in topic.partitions:
                    target = TopicPartition(topic.name, each.partition_index)
                    if each.error_code is ErrorCode.none:
                        found[target] = Reached(each.offset, each.timestamp)
                    else:
                        needs = on_topic(self._brokers.who, topic.name, Operation.DESCRIBE)
                        self._errors[target] = refusal(str(target), each.error_code, needs=needs)
        return found

    def _connection(self, leader: int) -> BrokerConnection:
        if (error := self._away.get(leader)) is not None:
            raise error
        return self._brokers.broker(leader)

    def _failed(self, leader: int, led: Iterable[TopicPartition], error: ClientError) -> None:
        """It is not asked again: whoever waits for one that is away keeps all others waiting."""
        self._away[leader] = error
        self._errors |= dict.fromkeys(led, error)

    def _may_pass(self, target: TopicPartition) -> bool:
        """Whether a moment later it may be known, from whoever leads then."""
        error = self._errors.get(target)
        return isinstance(error, Refused) and error.retriable


def _request(times: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (name, partition), timestamp in times.items():
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(name, []).append(wanted)
    return ListOffsetsRequest(
        isolation_level=READ_UNCOMMITTED,
        topics=tuple(
            ListOffsetsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
