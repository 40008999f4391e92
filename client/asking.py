"""What a leader is asked for: a fetch session (KIP-227), from the side of who asks. No I/O.

Rule 1: a session begins with a full request, epoch 0; from then on only what has changed is named,
        and what is wanted no more is forgotten. What is not named is asked for as it was.
Rule 2: a leader that gives no session is asked for everything each time, each partition being the
        first in its turn.
Rule 3: after an error of the session nothing in the answer counts, and a new session begins. The
        old one is named in its first request, if it may still be there: it ends with that.
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

Key = tuple[str, int]  # a topic, and the number of a partition

NO_SESSION: Final = 0
_BEGINNING: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_MIN_BYTES: Final = 1


class Wanted(NamedTuple):
    """What is asked of one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int  # of the batch before that offset
    log_start: int
    max_bytes: int


class _Session(msgspec.Struct):
    """The leader's number for it, and that of the next request in it."""

    number: int = NO_SESSION
    epoch: int = _BEGINNING


class Asking:
    """The requests to one leader, one after the other."""

    def __init__(self, replica_id: int, max_bytes: int, isolation_level: int = 0) -> None:
        self._replica_id = replica_id
        self._isolation_level = isolation_level
        self._max_bytes = max_bytes
        self._session = _Session()
        self._wanted: dict[Key, Wanted] = {}
        self._told: dict[Key, Wanted] = {}  # by the last request, or before
        self._changed: dict[Key, None] = {}  # since the last request; a set that keeps its order
        self._turn = 0

    @property
    def wants_any(self) -> bool:
        return bool(self._wanted)

    def want(self, key: Key, wanted: Wanted) -> None:
        """From the next request on."""
        self._wanted[key] = wanted
        self._changed[key] = None

    def leave_out(self, key: Key) -> None:
        """From the next request on, until it is wanted again."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def asked(self, key: Key) -> Wanted | None:
        """What the last request asked of this partition, by naming it or by saying nothing."""
        return self._told.get(key)

    def request(self, max_wait_ms: int) -> FetchRequest:
        """The next request."""
        is_full = self._session.epoch == _BEGINNING
        forgotten: list[Key] = []
        if is_full:
            self._told = self._all_in_turn()
            named = list(self._told)
        else:
            named, forgotten = self._tell_changes()
        self._changed.clear()
        return FetchRequest(
            replica_id=self._replica_id,
            max_wait=max_wait_ms,
            min_bytes=_MIN_BYTES,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=self._session.number,
            session_epoch=self._session.epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )

    def answered(self, answer: FetchResponse) -> ErrorCode:
        """The answer to it has come: what the leader says of the session. Only where that is
        `none` anything in it counts."""
        session, code = self._session, answer.error_code
        if code is ErrorCode.fetch_session_id_not_found:
            self._session = _Session()
        elif code is not ErrorCode.none:
            self.begin()
        elif answer.session_id == NO_SESSION:
            self._session = _Session()
        elif session.epoch == _BEGINNING:
            self._session = _Session(answer.session_id, next_epoch(_BEGINNING))
        else:
            session.epoch = next_epoch(session.epoch)
        return code

    def begin(self) -> None:
        """Begin a new session: what became of the last request is not known."""
        self._session.epoch = _BEGINNING

    def _all_in_turn(self) -> dict[Key, Wanted]:
        self._turn += 1
        keys = list(self._wanted)
        first = self._turn % len(keys) if keys else 0
        return {key: self._wanted[key] for key in (*keys[first:], *keys[:first])}

    def _tell_changes(self) -> tuple[list[Key], list[Key]]:
        named, forgotten = [], []
        for key in self._changed:
            wanted = self._wanted.get(key)
            if wanted is None:
                if self._told.pop(key, None) is not None:
                    forgotten.append(key)
            elif self._told.get(key) != wanted:
                self._told[key] = wanted
                named.append(key)
        return named, forgotten

    def _topics(self, keys: Iterable[Key]) -> tuple[FetchTopic, ...]:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, index in keys:
            wanted = self._told[topic, index]
            topics.setdefault(topic, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.offset,
                    last_fetched_epoch=wanted.last_epoch,
                    log_start_offset=wanted.log_start,
                    partition_max_bytes=wanted.max_bytes,
                )
            )
        return tuple(
            FetchTopic(topic=topic, partitions=tuple(each)) for topic, each in topics.items()
        )


def next_epoch(epoch: int) -> int:
    """The number of the next request in a session; a session's first has none of these."""
    return epoch % _LAST_EPOCH + 1


def _forgotten_topics(keys: Iterable[Key]) -> tuple[ForgottenTopic, ...]:
    topics: dict[str, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return tuple(
        ForgottenTopic(topic=topic, partitions=tuple(each)) for topic, each in topics.items()
    )
