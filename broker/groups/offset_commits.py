"""Writes committed offsets to ZooKeeper: collects commits while earlier ones are being written, and
answers them when they are durable.

Rule 1: one round, of one or a few transactions, is under way at a time, on one thread. Later
        commits are in the next round: the slower ZooKeeper is, the more commits share a
        transaction.
Rule 2: clients take turns, and so do each client's groups, one commit each, until a transaction has
        enough partitions. So no client waits behind a group that commits a lot, nor behind a client
        that commits for a lot of groups.
Rule 3: all commits of a group in one round are written as one commit, with the last offset of each
        partition. The next round begins when that is done: of each group one is under way.
Rule 4: deletions of offsets wait in the same queue. Offsets committed before are deleted, offsets
        committed afterwards stay.
Rule 5: the queue is bounded, for each group, for each client, and in total. A client beyond the
        bound is told to retry.

Belongs to the event loop. A crash loses only commits that were not answered.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from broker.groups.client_fairness import Client
from broker.groups.error_codes import code_of
from broker.groups.metrics import GroupCounts
from cluster.errors import ClusterError, Fenced
from cluster.groups.offsets import GATHERED, GroupCommit, OffsetWriter
from cluster.session.operations import MAX_BYTES
from cluster.values import CommittedOffset, GroupFence, TopicPartition
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

_OVERHEAD: Final = 150  # bytes of an offset, besides its names and metadata
_SHARE: Final = 4  # the part of the queue that one group or client may fill: a quarter

Offsets = Mapping[TopicPartition, CommittedOffset]


class _Waiting(msgspec.Struct, eq=False):
    """Offsets that wait to be committed, or, if they are None, partitions whose offsets are to be
    deleted."""

    offsets: Offsets | None
    deleted: Collection[TopicPartition]
    client: Client
    size: int
    began: float
    done: asyncio.Future[ErrorCode]


class _Row(msgspec.Struct):
    waiting: deque[_Waiting] = msgspec.field(default_factory=deque)
    size: int = 0


_Round = dict[GroupFence, list[_Waiting]]


class Commits:
    def __init__(self, writer: OffsetWriter, counts: GroupCounts, *, most_bytes: int) -> None:
        self._writer = writer
        self._counts = counts
        self._most_bytes = most_bytes
        self._loop = asyncio.get_running_loop()
        self._rows: dict[GroupFence, _Row] = {}  # the next one stands first
        self._size = 0
        self._of_clients: Counter[Client] = Counter()  # bytes
        self._thread = ThreadPoolExecutor(1, "commits")
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, fence: GroupFence, offsets: Offsets, client: Client = None) -> ErrorCode:
        """Commits offsets. Returns NONE once durable. After any other code the outcome is
        unknown."""
        return await self._add(fence, offsets, (), client)

    async def delete(
        self, fence: GroupFence, partitions: Collection[TopicPartition], client: Client = None
    ) -> ErrorCode:
        """Deletes the offsets of partitions, which need not have any."""
        return await self._add(fence, None, partitions, client)

    def forget(self, fence: GroupFence) -> None:
        self._writer.forget(fence)

    async def stop(self) -> None:
        if self._writing is not None:
            await self._writing
        await asyncio.to_thread(self._thread.shutdown)

    async def _add(
        self,
        fence: GroupFence,
        offsets: Offsets | None,
        deleted: Collection[TopicPartition],
        client: Client,
    ) -> ErrorCode:
        size = _size(fence, deleted if offsets is None else offsets, offsets or {})
        row = self._rows.get(fence)
        client_bytes = 0 if client is None else self._of_clients[client]
        shares = (0 if row is None else row.size, client_bytes)
        # A single request always fits: its size is limited.
        if (self._size and self._size + size > self._most_bytes) or any(
            share and share + size > self._most_bytes // _SHARE for share in shares
        ):
            return ErrorCode.coordinator_load_in_progress
        if row is None:
            row = self._rows[fence] = _Row()
        result: asyncio.Future[ErrorCode] = self._loop.create_future()
        row.waiting.append(_Waiting(offsets, deleted, client, size, self._loop.time(), result))
        row.size += size
        self._size += size
        self._of_clients[client] += size
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_all())
        # The client may disconnect; its commit is done all the same.
        return await asyncio.shield(result)

    async def _write_all(self) -> None:
        try:
            while round_ := self._next_round():
                codes = await self._loop.run_in_executor(self._thread, self._write, round_)
                self._done(round_, codes)
        finally:
            self._writing = None

    def _next_round(self) -> _Round:
        round_: _Round = {}
        turns = self._turns()
        partition_count = size = 0
        while turns:
            client, fences = next(iter(turns.items()))
            fence = fences.popleft()
            row = self._rows[fence]
            commit, round_commits = row.waiting[0], round_.get(fence)
            added_count = len(commit.deleted if commit.offsets is None else commit.offsets)
            if partition_count and (
                partition_count + added_count > GATHERED or size + commit.size > MAX_BYTES // 2
            ):
                break
            del turns[client]  # it goes to the end, if it has more
            if fences:
                turns[client] = fences
            if round_commits is not None and (
                round_commits[0].offsets is None or commit.offsets is None
            ):
                continue  # deletions and commits of a group are not in one round
            partition_count, size = partition_count + added_count, size + commit.size
            row.waiting.popleft()
            row.size -= commit.size
            round_.setdefault(fence, []).append(commit)
            del self._rows[fence]
            if row.waiting:
                self._rows[fence] = row
                turns.setdefault(row.waiting[0].client, deque()).append(fence)
        return round_

    def _turns(self) -> dict[Client, deque[GroupFence]]:
        """The groups of each client, in order. A group belongs to its first commit's client."""
        turns: dict[Client, deque[GroupFence]] = {}
        for fence, row in self._rows.items():
            turns.setdefault(row.waiting[0].client, deque()).append(fence)
        return turns

    def _write(self, round_: _Round) -> dict[GroupFence, ErrorCode]:
        """Runs on the thread; returns the error codes of groups that failed."""
        codes: dict[GroupFence, ErrorCode] = {}
        commits = []
        for fence, waiting_commits in round_.items():
            if waiting_commits[0].offsets is None:
                codes[fence] = self._delete(fence, waiting_commits[0].deleted)
            else:
                commits.append(GroupCommit(fence, _merged(waiting_commits)))
        try:
            errors = self._writer.commit(commits)
        except ClusterError as error:
            log.warning("offsets not committed groups=%d error=%r", len(commits), str(error))
            return codes | {commit.fence: code_of(error) for commit in commits}
        except Exception:
            log.exception("offsets not committed groups=%d", len(commits))
            error_code = ErrorCode.unknown_server_error
            return codes | {commit.fence: error_code for commit in commits}
        return codes | dict.fromkeys(errors, ErrorCode.not_coordinator)

    def _delete(self, fence: GroupFence, partitions: Collection[TopicPartition]) -> ErrorCode:
        try:
            self._writer.delete(fence, partitions)
        except Fenced:
            return ErrorCode.not_coordinator
        except ClusterError as error:
            log.warning("offsets not deleted group=%r error=%r", fence.group, str(error))
            return code_of(error)
        except Exception:
            log.exception("offsets not deleted group=%r", fence.group)
            return ErrorCode.unknown_server_error
        return ErrorCode.none

    def _done(self, round_: _Round, codes: Mapping[GroupFence, ErrorCode]) -> None:
        now = self._loop.time()
        for fence, waiting_commits in round_.items():
            code = codes.get(fence, ErrorCode.none)
            for commit in waiting_commits:
                self._size -= commit.size
                self._of_clients[commit.client] -= commit.size
                if not self._of_clients[commit.client]:
                    del self._of_clients[commit.client]
                if commit.offsets is not None and code is ErrorCode.none:
                    self._counts.commit(len(commit.offsets), now - commit.began)
                if not commit.done.done():
                    commit.done.set_result(code)


def _merged(waiting: Iterable[_Waiting]) -> Offsets:
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for commit in waiting:
        offsets |= commit.offsets or {}
    return offsets


def _size(fence: GroupFence, partitions: Iterable[TopicPartition], offsets: Offsets) -> int:
    """The approximate size within a transaction, in bytes."""
    fixed_bytes = len(fence.group) + _OVERHEAD
    names_bytes = sum(len(topic) + fixed_bytes for topic, _ in partitions)
    return names_bytes + sum(len(offset.metadata) for offset in offsets.values())
