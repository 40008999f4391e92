"""The fetching side of an incremental fetch session (KIP-227). No I/O.

Rule 1: a session begins with a full request, epoch 0. Later requests name only partitions that
        changed, and forget those no longer wanted; the others are fetched as before.
Rule 2: a leader that grants no session is sent all partitions every time, each partition taking its
        turn to be first.
Rule 3: after a session error the whole answer is ignored and a new session begins. Its first
        request names the old session if that may still exist, which closes it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from wire.errors import ErrorCode
from wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

Key = tuple[str, int]  # topic, partition index

NO_SESSION: Final = 0
_BEGINNING: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_MIN_BYTES: Final = 1


class FetchPosition(NamedTuple):
    """The position for fetching one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int  # of the batch before that offset
    log_start: int
    max_bytes: int


class _SessionId(msgspec.Struct):
    """The session's id, assigned by the leader, and the epoch of the next request."""

    number: int = NO_SESSION
    epoch: int = _BEGINNING


class FetchSession:
    """The sequence of fetch requests to one leader."""

    def __init__(self, replica_id: int, max_bytes: int, isolation_level: int = 0) -> None:
        self._replica_id = replica_id
        self._isolation_level = isolation_level
        self._max_bytes = max_bytes
        self._session = _SessionId()
        self._wanted: dict[Key, FetchPosition] = {}
        self._sent: dict[Key, FetchPosition] = {}  # as the leader knows them
        self._changed: dict[Key, None] = {}  # since the last request; an ordered set
        self._turn = 0

    @property
    def wants_any(self) -> bool:
        return bool(self._wanted)

    def want(self, key: Key, wanted: FetchPosition) -> None:
        """Adds the partition from the next request on."""
        self._wanted[key] = wanted
        self._changed[key] = None

    def leave_out(self, key: Key) -> None:
        """Stops fetching the partition from the next request on, until it is added again."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def requested(self, key: Key) -> FetchPosition | None:
        """Returns the position of the partition in the last request, whether named in it or not;
        None if the session did not include the partition."""
        return self._sent.get(key)

    def request(self, max_wait_ms: int) -> FetchRequest:
        """Builds the next request."""
        is_full = self._session.epoch == _BEGINNING
        forgotten_keys: list[Key] = []
        if is_full:
            self._sent = self._rotated()
            requested_keys = list(self._sent)
        else:
            requested_keys, forgotten_keys = self._take_changes()
        self._changed.clear()
        return FetchRequest(
            replica_id=self._replica_id,
            max_wait=max_wait_ms,
            min_bytes=_MIN_BYTES,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=self._session.number,
            session_epoch=self._session.epoch,
            topics=self._topics(requested_keys),
            forgotten_topics_data=_forgotten_topics(forgotten_keys),
        )

    def answered(self, response: FetchResponse) -> ErrorCode:
        """Processes the answer to the last request; returns the session's error code. Unless that
        is `none`, the caller ignores the rest of the answer."""
        session, code = self._session, response.error_code
        if code is ErrorCode.fetch_session_id_not_found:
            self._session = _SessionId()
        elif code is not ErrorCode.none:
            self.begin()
        elif response.session_id == NO_SESSION:
            self._session = _SessionId()
        elif session.epoch == _BEGINNING:
            self._session = _SessionId(response.session_id, next_epoch(_BEGINNING))
        else:
            session.epoch = next_epoch(session.epoch)
        return code

    def begin(self) -> None:
        """Begins a new session, because the outcome of the last request is unknown."""
        self._session.epoch = _BEGINNING

    def _rotated(self) -> dict[Key, FetchPosition]:
        self._turn += 1
        keys = list(self._wanted)
        first_index = self._turn % len(keys) if keys else 0
        return {key: self._wanted[key] for key in (*keys[first_index:], *keys[:first_index])}

    def _take_changes(self) -> tuple[list[Key], list[Key]]:
        requested_keys, forgotten_keys = [], []
        for key in self._changed:
            position = self._wanted.get(key)
            if position is None:
                if self._sent.pop(key, None) is not None:
                    forgotten_keys.append(key)
            elif self._sent.get(key) != position:
                self._sent[key] = position
                requested_keys.append(key)
        return requested_keys, forgotten_keys

    def _topics(self, keys: Iterable[Key]) -> tuple[FetchTopic, ...]:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, index in keys:
            position = self._sent[topic, index]
            topics.setdefault(topic, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_epoch,
                    log_start_offset=position.log_start,
                    partition_max_bytes=position.max_bytes,
                )
            )
        return tuple(
            FetchTopic(topic=topic, partitions=tuple(fetch_partitions))
            for topic, fetch_partitions in topics.items()
        )


def next_epoch(epoch: int) -> int:
    """Returns the epoch of the next request in a session; never the epoch of a first request."""
    return epoch % _LAST_EPOCH + 1


def _forgotten_topics(keys: Iterable[Key]) -> tuple[ForgottenTopic, ...]:
    topics: dict[str, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return tuple(
        ForgottenTopic(topic=topic, partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )
