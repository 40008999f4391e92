"""Many members of consumer groups, each with a connection, in a separate process.

They join, receive empty assignments, send heartbeats, commit and leave. Their requests use
the last versions before the flexible protocol, which every broker serves, and are written out here
so that a mistake in `wire` shows.
"""

import asyncio
import contextlib
import itertools
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from bench.loads.child_process import allow_most_open_files, child_process, receive
from bench.loads.requests import AnswerError, frame, string

_OFFSET_COMMIT, _OFFSET_FETCH, _FIND, _JOIN, _HEARTBEAT, _LEAVE, _SYNC = 8, 9, 10, 11, 12, 13, 14
_OF_ANOTHER_GENERATION: Final = {22, 25, 27}  # illegal, unknown member, rebalance in progress
_LOADING: Final = {14, 15, 16}  # a new coordinator
_SESSION_MS: Final = 30_000
SHORT_SESSION_MS: Final = 6_000  # the shortest that brokers grant
_REBALANCE_MS: Final = 60_000
_ADDRESSES: Final = 8
_OPENED_AT_ONCE: Final = 200
_PATIENCE: Final = 120.0
_SOON: Final = 0.2  # between heartbeats while a group forms


class Done(msgspec.Struct, frozen=True):
    """The number of operations, the time, the waits for answers, and the members' CPU time."""

    count: int
    seconds: float
    waits: Sequence[float]
    members_cpu: float

    def milliseconds(self, share: float) -> float:
        return sorted(self.waits)[int(share * (len(self.waits) - 1))] * 1e3


class _Member:
    def __init__(self, group: str, share: "Share | None" = None, session_ms: int = 0) -> None:
        self.group = group
        self._share = share
        self._session_ms = session_ms or _SESSION_MS
        self.id = ""
        self.generation = -1  # in no generation
        self.joined = 0.0  # the time when the assignment was known

    async def connect(self, port: int, number: int) -> None:
        source = f"127.0.0.{1 + number % _ADDRESSES}", 0
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=source
        )

        await self._find()

    async def _find(self) -> None:
        """Find the coordinator, with retries: some brokers become one on demand."""
        request = string(self.group) + struct.pack(">b", 0)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            (error,) = struct.unpack_from(">h", await self._ask(_FIND, 1, request), 4)
            if not error:
                return
            await asyncio.sleep(_SOON)
        _check(error, "FindCoordinator")

    def close(self) -> None:
        self._writer.close()

    async def _ask(self, key: int, version: int, body: bytes) -> bytes:
        """Returns the answer's body."""
        self._writer.write(frame(key, version, 0, body))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return (await self._reader.readexactly(size))[4:]

    @property
    def _named(self) -> bytes:
        return string(self.group) + struct.pack(">i", self.generation) + string(self.id)

    async def join(self) -> None:
        """Joins the group; returns once the assignment and the committed offsets are known."""
        while not await self._join():
            pass
        if self._share is not None:
            await self._fetch(self._share)
        self.joined = time.monotonic()

    async def _join(self) -> bool:
        times = struct.pack(">ii", self._session_ms, _REBALANCE_MS)
        protocols = struct.pack(">i", 1) + string("range") + struct.pack(">i", 0)
        request = string(self.group) + times + string(self.id) + string("consumer") + protocols
        answer = await self._ask(_JOIN, 2, request)
        error, generation = struct.unpack_from(">hi", answer, 4)
        self.generation = -1
        if error in _OF_ANOTHER_GENERATION:
            self.id = "" if error == 25 else self.id
            return False
        if error in _LOADING:
            await asyncio.sleep(_SOON)
            return False
        _check(error, "JoinGroup")
        texts = _Texts(answer, 10)
        texts.take()  # the protocol
        leader, self.id = texts.take(), texts.take()
        assignments = _assigned(texts.members()) if leader == self.id else struct.pack(">i", 0)
        identity = string(self.group) + struct.pack(">i", generation) + string(self.id)
        answer = await self._ask(_SYNC, 1, identity + assignments)
        (error,) = struct.unpack_from(">h", answer, 4)
        if error in _OF_ANOTHER_GENERATION:
            return False
        _check(error, "SyncGroup")
        self.generation = generation
        return True

    async def _fetch(self, share: "Share") -> None:
        body = string(self.group) + struct.pack(">i", 1) + string(share.topic)
        body += struct.pack(f">i{len(share.partitions)}i", len(share.partitions), *share.partitions)
        answer = await self._ask(_OFFSET_FETCH, 2, body)
        (error,) = struct.unpack_from(">h", answer, len(answer) - 2)
        _check(error, "OffsetFetch")

    async def heartbeat(self) -> bool:
        """Sends a heartbeat; returns False if the group is rebalancing."""
        answer = await self._ask(_HEARTBEAT, 1, self._named)
        (error,) = struct.unpack_from(">h", answer, 4)
        if error in _OF_ANOTHER_GENERATION:
            return False
        _check(error, "Heartbeat")
        return True

    async def commit(self, topic: str, offset: int, partitions: int) -> None:
        body = self._named + struct.pack(">qi", -1, 1) + string(topic)
        body += struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iqh", index, offset, 0) for index in range(partitions))
        answer = await self._ask(_OFFSET_COMMIT, 2, body)
        first = 4 + len(string(topic)) + 4
        for position in range(first, first + 6 * partitions, 6):
            (error,) = struct.unpack_from(">h", answer, position + 4)
            _check(error, "OffsetCommit")

    async def leave(self) -> None:
        if not self.id:
            return
        answer = await self._ask(_LEAVE, 1, string(self.group) + string(self.id))
        (error,) = struct.unpack_from(">h", answer, 4)
        _check(error, "LeaveGroup")
        self.id, self.generation = "", -1


class Share(msgspec.Struct, frozen=True):
    """The partitions of a topic that a member treats as its own."""

    topic: str
    partitions: Sequence[int]


class _Texts:
    """Reads consecutive strings from an answer."""

    def __init__(self, answer: bytes, position: int) -> None:
        self._answer, self._at = answer, position

    def take(self) -> str:
        (size,) = struct.unpack_from(">h", self._answer, self._at)
        start = self._at + 2
        self._at = start + size
        return self._answer[start : self._at].decode()

    def members(self) -> list[str]:
        """The members' names; their metadata is empty."""
        (count,) = struct.unpack_from(">i", self._answer, self._at)
        self._at += 4
        names = []
        for _ in range(count):
            names.append(self.take())
            self._at += 4
        return names


def _assigned(members: Sequence[str]) -> bytes:
    assignments = (string(member) + struct.pack(">i", 0) for member in members)
    return struct.pack(">i", len(members)) + b"".join(assignments)


def _check(error: int, request: str) -> None:
    if error:
        raise AnswerError(f"{request} was answered with error {error}")


class _Members(msgspec.Struct):
    port: int
    all: list[_Member] = []

    async def come(
        self,
        groups: Iterable[str],
        per_group: int,
        shares: Sequence[Share] = (),
        session_ms: int = 0,
    ) -> Done:
        """Adds `each` members to every group, and waits until all members of a group are in the
        same generation.

        `shares` assigns partitions to the members of a single group.
        """
        new_members = [
            _Member(group, shares[number] if shares else None, session_ms)
            for group in groups
            for number in range(per_group)
        ]
        semaphore = asyncio.Semaphore(_OPENED_AT_ONCE)

        async def connect(number: int, member: _Member) -> None:
            async with semaphore:
                await member.connect(self.port, number)

        await _together(connect(number, member) for number, member in enumerate(new_members))
        self.all += new_members
        return await _settled(new_members, _SOON)

    async def beat(self, seconds: float, every: float) -> Done:
        """Sends heartbeats of all members, spread evenly over the interval."""
        waits: list[float] = []
        start_time = time.monotonic()

        async def member_beats(number: int, member: _Member) -> None:
            due_time = start_time + every * number / len(self.all)
            while due_time < start_time + seconds:
                await asyncio.sleep(max(0.0, due_time - time.monotonic()))
                send_time = time.monotonic()
                if not await member.heartbeat():
                    raise AnswerError("a group rebalanced without a reason")
                waits.append(time.monotonic() - send_time)
                due_time += every

        cpu_before = time.process_time()
        await _together(itertools.starmap(member_beats, enumerate(self.all)))
        cpu = time.process_time() - cpu_before
        return Done(len(waits), time.monotonic() - start_time, waits, cpu)

    async def commit(self, seconds: float, topic: str, partitions: int) -> Done:
        """Has every member commit as fast as it is answered; counts the partitions committed."""
        offsets = itertools.count()

        async def once(member: _Member) -> int:
            await member.commit(topic, next(offsets), partitions)
            return partitions

        return await self._for(seconds, once)

    async def come_and_go(self, seconds: float, name: str) -> Done:
        """Has every member repeatedly join a new group of its own and leave it."""
        numbers = itertools.count()

        async def once(member: _Member) -> int:
            member.group = f"{name}-{next(numbers)}"
            await member.join()
            await member.leave()
            return 1

        await _together(map(_Member.leave, self.all))
        return await self._for(seconds, once)

    async def _for(self, seconds: float, once: Callable[[_Member], Awaitable[int]]) -> Done:
        waits: list[float] = []
        count = 0
        start_time, cpu_before = time.monotonic(), time.process_time()

        async def again(member: _Member) -> None:
            nonlocal count
            while (send_time := time.monotonic()) < start_time + seconds:
                operations = await once(member)
                count += operations
                waits.append(time.monotonic() - send_time)

        await _together(map(again, self.all))
        return Done(count, time.monotonic() - start_time, waits, time.process_time() - cpu_before)

    async def one_more(self, every: float, share: Share) -> Done:
        """Adds a member to a group; the other members learn of it by heartbeats and join again."""
        new_member = _Member(self.all[0].group, share)
        await new_member.connect(self.port, len(self.all))
        self.all.append(new_member)
        return await _settled(self.all, every)

    async def one_less(self, every: float) -> Done:
        """Disconnects a member after a heartbeat; the other members notice when its session
        expires."""
        old_member = self.all.pop()
        generation = old_member.generation
        await old_member.heartbeat()
        old_member.close()
        return await _settled(self.all, every, beyond=generation)

    async def go(self) -> Done:
        start_time, cpu_before = time.monotonic(), time.process_time()
        await _together(map(_Member.leave, self.all))
        result = Done(
            len(self.all), time.monotonic() - start_time, (), time.process_time() - cpu_before
        )
        for member in self.all:
            member.close()
        self.all = []
        return result


async def _together(tasks: Iterable[Awaitable[None]]) -> None:
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*tasks)


async def _settled(members: Sequence[_Member], every: float, beyond: int = -1) -> Done:
    """Wait until all members of each group share a generation later than `beyond`."""
    groups: dict[str, list[_Member]] = {}
    for member in members:
        groups.setdefault(member.group, []).append(member)
    start_time, cpu_before = time.monotonic(), time.process_time()

    async def settle(number: int, member: _Member) -> None:
        if member.generation < 0:
            await member.join()
        else:
            await asyncio.sleep(every * number / len(members))
        while not _is_settled(groups[member.group], beyond):
            if await member.heartbeat():
                await asyncio.sleep(every)
            else:
                await member.join()

    await _together(itertools.starmap(settle, enumerate(members)))
    waits = [member.joined - start_time for member in members]
    return Done(len(members), max(waits), waits, time.process_time() - cpu_before)


def _is_settled(group: Sequence[_Member], beyond: int) -> bool:
    generations = {member.generation for member in group}
    return len(generations) == 1 and min(generations) > beyond


def _serve(port: int, pipe: Connection) -> None:
    """Serve the pipe's commands in this process until it is closed."""
    allow_most_open_files()
    members = _Members(port)
    with asyncio.Runner() as runner, contextlib.suppress(EOFError):
        while True:
            name, arguments = pipe.recv()
            try:
                pipe.send(runner.run(getattr(members, name)(*arguments)))
            except (AnswerError, OSError, EOFError, TimeoutError) as error:
                pipe.send(AnswerError(f"{name}: {type(error).__name__}: {error}"))


class GroupMembers:
    """Controls the members in their process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def do(self, name: str, *arguments: Any) -> Done:
        return self.begin(name, *arguments)()

    def begin(self, name: str, *arguments: Any) -> Callable[[], Done]:
        """Starts a method of `_Members`; returns a function that waits for its result."""
        self._pipe.send((name, arguments))
        return partial(receive, self._pipe, Done)


@contextlib.contextmanager
def group_members(port: int) -> Iterator[GroupMembers]:
    """Starts the process, without members; members that are left at the end leave their groups."""
    with child_process(_serve, port, patience=_PATIENCE) as pipe:
        members = GroupMembers(pipe)
        yield members
        members.do("go")
