"""Copies partitions from one leader over one connection. In-sync partitions have one link, those
that are catching up another (copying.py).

    connect → ask ⇄ take the answer, flush → …        after an error a pause, and again

Rule 1: one request is under way, in an incremental session (client/reading/fetch_session.py).
Rule 2: the batches of an answer are appended before the next request, and flushed before their
        partition is asked for again: a fetch offset is a flushed end.
Rule 3: no partition waits long for another one's flush. When everything is flushed, or a moment is
        over, the next request leaves out partitions that are still being flushed: the session
        forgets them (it would send the same bytes again), and adds them again when they are done.
        While there are such partitions, leaders are told to answer within a moment, so that flushed
        ends are reported soon. Partitions with problems and throttled ones (throttle.py) are left
        out in the same way.
Rule 4: partitions with much to fetch share the size of an answer; each of the others may have a
        sixteenth of it, so that they make progress meanwhile.
Rule 5: partitions that catch up do so in portions of a few megabytes, one partition after the
        other, each portion large enough for the disk. While one is flushed only the next one is
        fetched: so in-sync replicas wait, for the leader, the event loop or the disk, behind a
        portion and not behind all that is missing.
Rule 6: while a partition catches up from a leader, requests for in-sync ones do not wait long at
        that leader: a partition that has caught up moves to this link, and its fetches are then
        awaited.

The leader is asked again and again until the link is closed: it may come back.

Specified in docs/replication-spec.md: `SendFetch` (R2).
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from broker.replication.copied_partition import CopiedPartition
from broker.replication.throttle import Throttle
from broker.storage.directory.checkpoints import Key
from client.connection.addresses import Address
from client.connection.bootstrap import IN_THE_CLEAR, Access
from client.connection.connection import REQUEST_SECONDS
from client.connection.leader_connection import LeaderConnection
from client.errors import ClientError, refusal
from client.patience import Pauses
from client.reading.fetch_session import FetchSession
from wire.errors import ErrorCode
from wire.framing.slices import FileSlice
from wire.messages import fetch
from wire.messages.fetch import FetchResponse

log = logging.getLogger(__name__)

CLIENT_ID: Final = "penstock-replica-%d"
_MOMENT: Final = 0.02  # for flushes, before the other partitions are asked for
_GLANCE: Final = 0.01  # how long a leader may wait while flushes are under way
_SHARES: Final = 16
_PORTION: Final = 4 * 1024 * 1024  # bytes of a partition that catches up
_PORTIONS: Final = 2  # portions at a time: one being flushed, one being fetched
_AT_ONCE: Final = 64  # partitions of an answer, in one turn of the loop
_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch}
)


class Fetching(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of this broker's fetches."""

    broker_id: int
    access: Access = IN_THE_CLEAR
    wait_seconds: float = 0.5
    """How long a leader waits for data."""
    bytes: int = 16 * 1024 * 1024
    """The largest answer, except for a single larger batch."""
    answer_seconds: float = REQUEST_SECONDS
    """The timeout of an answer, in addition to the leader's wait."""
    throttle: Throttle = msgspec.field(default_factory=Throttle)
    """The throttle of moved replicas, for all leaders together."""


class LeaderLink:
    """Copies partitions from one leader over one connection. Belongs to the event loop."""

    def __init__(
        self,
        leader_id: int,
        address: Address,
        fetching: Fetching,
        *,
        catches_up: bool = False,
        others_join: Callable[[], bool] = lambda: False,
    ) -> None:
        """`others_join`: partitions catch up over another link, and then move to this one."""
        self.leader_id = leader_id
        self.address = address
        self.trouble = ""  # why nothing can be copied from there
        self.connections = 0  # connections opened
        self._fetching = fetching
        self._catches_up = catches_up
        self._others_join = others_join
        self._bytes = min(fetching.bytes, _PORTION) if catches_up else fetching.bytes
        self._asking = FetchSession(fetching.broker_id, self._bytes)
        self._copied: dict[Key, CopiedPartition] = {}
        self._aside: dict[Key, CopiedPartition] = {}  # partitions at work or at rest
        self._hungry: set[Key] = set()
        self._changed = asyncio.Event()
        self._pauses = Pauses()
        self._loop = asyncio.get_running_loop()
        self._running = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._copied)

    def __contains__(self, copied: CopiedPartition) -> bool:
        return self._copied.get(copied.key) is copied

    def follow(self, copied: CopiedPartition, leader_epoch: int) -> None:
        """Copies a partition, in this epoch of the leader."""
        self._copied[copied.key] = copied
        self._put_aside(copied)
        copied.follow(leader_epoch, partial(self._resume, copied))

    def leave(self, copied: CopiedPartition) -> None:
        copied.leave()
        self._put_aside(copied)
        del self._copied[copied.key], self._aside[copied.key]
        self._hungry.discard(copied.key)

    async def close(self) -> None:
        """Ends the link, once it has no partitions left."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    # The leader

    async def _run(self) -> None:
        while True:
            try:
                await self._copy()
            except ClientError as error:
                self._failed(str(error))
            except Exception as error:  # a bug of ours: a retry may well succeed
                log.exception("copying failed leader=%d", self.leader_id)
                self._failed(repr(error))
            else:
                continue
            await asyncio.sleep(self._pauses.next())

    async def _copy(self) -> None:
        """Runs as long as the connection lasts, and its login."""
        client_id = CLIENT_ID % self._fetching.broker_id
        access = self._fetching.access
        connection = await LeaderConnection.open(self.address, client_id, access)
        self.connections += 1
        self._asking.begin()
        try:
            while not connection.is_spent:
                await self._exchange(connection)
        finally:
            connection.close()

    async def _exchange(self, connection: LeaderConnection) -> None:
        """One request, and the processing of its answer."""
        await self._something_to_ask()
        wait_seconds = self._fetching.wait_seconds
        is_urgent = self._is_at_work or self._others_join()
        seconds = _GLANCE if is_urgent else wait_seconds
        request = self._asking.request(int(seconds * 1000))
        timeout = seconds + self._fetching.answer_seconds
        answer = await connection.ask(fetch.API, request, timeout)
        code = self._asking.answered(answer)
        if code is ErrorCode.none:
            self._succeeded()
            await self._take(answer)
        elif code not in _SESSION_ERRORS or request.session_epoch == 0:
            raise refusal(f"fetch from {self.address}", code)

    async def _something_to_ask(self) -> None:
        """Wait for flushes; only for a moment, if other partitions can be asked for."""
        is_over = False
        moment: asyncio.TimerHandle

        def over() -> None:
            nonlocal is_over, moment
            is_over = True
            self._changed.set()
            if self._is_at_work:  # a failure is handled elsewhere, and makes room too
                moment = self._loop.call_later(_MOMENT, over)

        moment = self._loop.call_later(_MOMENT, over)
        while self._is_at_work or not self._asking.wants_any:
            others_wait = is_over or self._hungry - self._aside.keys()
            if self._asking.wants_any and others_wait and self._has_room:
                break
            self._changed.clear()
            await self._changed.wait()
        moment.cancel()

    @property
    def _is_at_work(self) -> bool:
        """Whether an operation on a partition is under way that will be over soon."""
        return any(copied_partition.is_at_work for copied_partition in self._aside.values())

    @property
    def _has_room(self) -> bool:
        """Whether another portion may be fetched."""
        if not self._catches_up:
            return True
        bytes_at_work = sum(
            copied_partition.bytes_at_work for copied_partition in self._aside.values()
        )
        return bytes_at_work <= (_PORTIONS - 1) * self._bytes

    async def _take(self, answer: FetchResponse) -> None:
        partition_data = (
            (topic.topic, data) for topic in answer.responses for data in topic.partitions
        )
        for index, (topic, data) in enumerate(partition_data, 1):
            key = topic, data.partition_index
            copied_partition, fetch_position = self._copied.get(key), self._asking.requested(key)
            if copied_partition is None or fetch_position is None or copied_partition.is_at_work:
                continue  # it has left, and may have returned
            if fetch_position.leader_epoch != copied_partition.leader_epoch:
                continue
            if copied_partition.partition.copies_throttled and data.records:
                assert not isinstance(data.records, FileSlice)  # those only end the copying
                self._fetching.throttle.used(len(data.records), self._loop.time())
            self._put_aside(copied_partition)
            if not await copied_partition.take(data, fetch_position):
                self._resume(copied_partition)
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)

    # Partitions

    def _put_aside(self, copied: CopiedPartition) -> None:
        self._aside[copied.key] = copied
        self._asking.leave_out(copied.key)

    def _resume(self, copied: CopiedPartition) -> None:
        """Ask for it from its current end; or let it rest, if it is throttled."""
        key, throttle = copied.key, self._fetching.throttle
        if self._aside.get(key) is not copied:
            return
        is_throttled = copied.partition.copies_throttled
        if is_throttled and (seconds := throttle.wait_s(self._loop.time())) > 0:
            copied.rest(seconds)
            return
        del self._aside[key]
        if copied.hungry:
            self._hungry.add(key)
        else:
            self._hungry.discard(key)
        share = self._share(copied)
        self._asking.want(key, copied.wanted(throttle.portion(share) if is_throttled else share))
        self._changed.set()

    def _share(self, copied: CopiedPartition) -> int:
        """The number of its bytes to request at once."""
        if self._catches_up:
            return self._bytes
        return self._bytes // (min(len(self._hungry), _SHARES) if copied.hungry else _SHARES)

    def _failed(self, reason: str) -> None:
        if reason != self.trouble:
            log.warning("cannot copy from leader leader=%d reason=%r", self.leader_id, reason)
        self.trouble = reason

    def _succeeded(self) -> None:
        if self.trouble:
            log.info("copying resumed leader=%d address=%s", self.leader_id, self.address)
        self.trouble = ""
        self._pauses.reset()
