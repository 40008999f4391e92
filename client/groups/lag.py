"""The lag of consumer groups: the number of messages after their committed offsets, and the age of
the first.

Messages are counted as offsets, from the committed one, or the start of the log if that has been
deleted, to the end that consumers see. The lag in seconds is the age of the first uncommitted
record, by its timestamp; 0 if there is none. If the record may not be read, or reading would take
too many bytes, its age is estimated by searching timestamps.

Each leader is asked about many partitions at once. Errors of a partition (broker unavailable, no
leader, topic deleted or hidden) are reported for that partition alone.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import ClientError, ErrorCode, Refused, UnknownTopic, refusal
from client.patience import Pauses
from client.producing.delivery import TopicPartition
from client.reading.committed import READ_UNCOMMITTED
from client.reading.estimated_times import Reached, written_about
from client.reading.record_times import NothingLeft, PartitionOffset, Unknown, Written, written_at
from client.rights import on_topic
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
_NO_TIME: Final = "the age of the first unread record is unknown"


class HasOffset(Protocol):
    """An object with the next offset that a group will read."""

    @property
    def offset(self) -> int: ...


GroupPartition = tuple[str, TopicPartition]


class Lag(msgspec.Struct, frozen=True):
    """The lag of one group in one partition. Unknown values are None, and `unknown` says why.

    `committed` may lie before `begins`, the log's first offset (records were deleted before the
    group read them), and behind `end` (the log was replaced or lost its end).
    """

    committed: int
    begins: int | None = None
    end: int | None = None
    messages: int | None = None
    since: int | None = None  # the timestamp of the first uncommitted record
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
    """Returns the lag by group and partition at the time `now`, in seconds since 1970.

    `before` is the previous result: records whose timestamps it has are not read again. A broker
    that does not answer in `within` seconds is not asked again. At most about `most_bytes` are read
    to learn timestamps; others are estimated. Raises a ClientError if no broker can be reached.
    """
    offsets = {
        (group, target): commit.offset
        for group, partitions in committed.items()
        for target, commit in partitions.items()
        if commit.offset >= 0
    }
    survey = _Survey(brokers, within)
    end_offsets = survey.listed({target for _, target in offsets}, LATEST)
    lagging_keys = {key for key, offset in offsets.items() if offset < end_offsets.get(key[1], -1)}
    begin_offsets = survey.listed({target for _, target in lagging_keys}, EARLIEST)
    first_unread = {
        key: PartitionOffset(key[1], max(offsets[key], begin_offsets[key[1]]))
        for key in lagging_keys
        if key[1] in begin_offsets
    }
    known_times = _known_before(first_unread, before or {})
    unread_places = {place for place in first_unread.values() if place not in known_times}
    written_times = known_times | survey.written(unread_places, most_bytes, now)
    lags = {}
    for key, offset in offsets.items():
        target = key[1]
        end = end_offsets.get(target)
        if end is not None and offset >= end:
            lags[key] = Lag(offset, None, end, 0, None, 0.0)
        elif end is None or key not in first_unread:
            lags[key] = Lag(offset, None, end, unknown=survey.why(target))
        else:
            place = first_unread[key]
            written_time = written_times.get(place, Unknown(survey.why(target)))
            partial_lag = Lag(offset, begin_offsets[target], end, max(0, end - place.offset))
            lags[key] = _since(partial_lag, written_time, now)
    return lags


def end_offsets(
    brokers: Brokers, targets: Iterable[TopicPartition], *, within: float = WITHIN_SECONDS
) -> dict[TopicPartition, int]:
    """Returns the ends of these partitions; omits those whose leader does not answer."""
    return _Survey(brokers, within).listed(set(targets), LATEST)


def _since(partial_lag: Lag, written: Written, now: float) -> Lag:
    match written:
        case Unknown(why):
            return replace(partial_lag, unknown=f"{_NO_TIME}: {why}")
        case NothingLeft():
            return replace(partial_lag, seconds=0.0)
        case since:
            return replace(partial_lag, since=since, seconds=max(0.0, now - since / 1000))


def _known_before(
    first: Mapping[GroupPartition, PartitionOffset], before: Mapping[GroupPartition, Lag]
) -> dict[PartitionOffset, Written]:
    """Returns the timestamps of records that are still the first uncommitted ones."""
    known_times: dict[PartitionOffset, Written] = {}
    for key, place in first.items():
        old_lag = before.get(key)
        if old_lag is None or old_lag.since is None or old_lag.begins is None:
            continue
        if max(old_lag.committed, old_lag.begins) == place.offset:
            known_times[place] = old_lag.since
    return known_times


class _Survey:
    """Queries the leaders of partitions, and keeps their errors."""

    def __init__(self, brokers: Brokers, within: float) -> None:
        self._brokers = brokers
        self._within = within
        self._away: dict[int, ClientError] = {}
        self._errors: dict[TopicPartition, ClientError] = {}

    def why(self, target: TopicPartition) -> str:
        """Returns why something about this partition is unknown."""
        return str(self._errors.get(target, f"{target}: no answer"))

    def listed(self, targets: set[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Returns the offsets for a timestamp, or for a special value such as the end."""
        offsets: dict[TopicPartition, int] = {}
        pauses = Pauses()
        missing_targets = set(targets)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(pauses.next())
            for leader, led_targets in self._by_leader(missing_targets).items():
                entries = self._list(leader, dict.fromkeys(led_targets, timestamp))
                offsets |= {target: entry.offset for target, entry in entries.items()}
            missing_targets = {
                target for target in targets if target not in offsets and self._may_pass(target)
            }
            if not missing_targets:
                break
        return offsets

    def written(
        self, places: Collection[PartitionOffset], most_bytes: int, now: float
    ) -> dict[PartitionOffset, Written]:
        """Returns the times at which the records were written: exact if readable, else
        estimated."""
        places_by_target: dict[TopicPartition, list[PartitionOffset]] = {}
        for place in places:
            places_by_target.setdefault(place.target, []).append(place)
        readable_topics = self._readable({target.topic for target in places_by_target})
        written_times: dict[PartitionOffset, Written] = {}
        for leader, led_targets in self._by_leader(places_by_target).items():
            led_places = [place for target in led_targets for place in places_by_target[target]]
            readable_places = [
                place for place in led_places if place.target.topic in readable_topics
            ]
            try:
                if readable_places:
                    written_times |= written_at(
                        self._connection(leader),
                        self._brokers.who,
                        readable_places,
                        most_bytes=most_bytes * len(readable_places) // len(places),
                        within=self._within,
                    )
            except ClientError as error:
                self._failed(leader, led_targets, error)
            other_places = [place for place in led_places if place not in written_times]
            if leader not in self._away:
                written_times |= written_about(partial(self._list, leader), other_places, now)
        return written_times

    def _readable(self, topics: Collection[str]) -> set[str]:
        """Selects readable topics: fetching others would be refused, and logged."""
        if not topics:
            return set()
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in sorted(topics)),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self._brokers.call_any(metadata.API, request)
        return {
            topic.name
            for topic in answer.topics
            if topic.name is not None
            and (
                topic.topic_authorized_operations == NOT_ASKED  # the broker is too old to say
                or topic.topic_authorized_operations & (1 << Operation.READ)
            )
        }

    def _by_leader(self, targets: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Groups the partitions by their current leaders."""
        sorted_targets = sorted(targets)
        targets_by_leader: dict[int, list[TopicPartition]] = {}
        if not sorted_targets:
            return targets_by_leader
        topics = {target.topic for target in sorted_targets}
        metadata = self._brokers.persist(lambda: self._brokers.refresh(topics))
        for target in sorted_targets:
            try:
                if not metadata.has(target.topic):
                    raise UnknownTopic(target.topic)
                leader = metadata.topic(target.topic).partition(target.partition).leader
            except ClientError as error:
                self._errors[target] = error
            else:
                targets_by_leader.setdefault(leader, []).append(target)
        return targets_by_leader

    def _list(
        self, leader: int, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Reached]:
        targets = list(times)
        results: dict[TopicPartition, Reached] = {}
        for start in range(0, len(targets), _A_REQUEST):
            portion = targets[start : start + _A_REQUEST]
            try:
                connection = self._connection(leader)
                request = _request({target: times[target] for target in portion})
                response = connection.call(list_offsets.API, request, within=self._within)
            except ClientError as error:
                self._failed(leader, portion, error)
                continue
            for topic in response.topics:
                for partition in topic.partitions:
                    target = TopicPartition(topic.name, partition.partition_index)
                    if partition.error_code is ErrorCode.none:
                        results[target] = Reached(partition.offset, partition.timestamp)
                    else:
                        needs = on_topic(self._brokers.who, topic.name, Operation.DESCRIBE)
                        self._errors[target] = refusal(
                            str(target), partition.error_code, needs=needs
                        )
        return results

    def _connection(self, leader: int) -> BrokerConnection:
        if (error := self._away.get(leader)) is not None:
            raise error
        return self._brokers.broker(leader)

    def _failed(self, leader: int, led: Iterable[TopicPartition], error: ClientError) -> None:
        """A failed broker is not asked again: waiting for it would delay all others."""
        self._away[leader] = error
        self._errors |= dict.fromkeys(led, error)

    def _may_pass(self, target: TopicPartition) -> bool:
        """Whether the error is temporary, so that the next leader may answer."""
        error = self._errors.get(target)
        return isinstance(error, Refused) and error.retriable


def _request(times: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (name, partition), timestamp in times.items():
        partition_request = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topics.setdefault(name, []).append(partition_request)
    return ListOffsetsRequest(
        isolation_level=READ_UNCOMMITTED,
        topics=tuple(
            ListOffsetsTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
