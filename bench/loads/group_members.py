"""Members of consumer groups, as many as are wanted, in a process of its own: each a connection.

They join, are given what the first of them says, send heartbeats, commit, leave. Their requests are
of the last versions before the protocol became flexible, which all brokers serve; they are written
out here, so that a mistake in `wire` shows.
"""

import asyncio
import contextlib
import itertools
import multiprocessing
import resource
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from bench.loads.requests import AnswerError, frame, string

_OFFSET_COMMIT, _OFFSET_FETCH, _FIND, _JOIN, _HEARTBEAT, _LEAVE, _SYNC = 8, 9, 10, 11, 12, 13, 14
_OF_ANOTHER_GENERATION: Final = {22, 25, 27}  # illegal, unknown member, rebalance in progress
_LOADING: Final = {14, 15, 16}  # what has just begun to be a coordinator
_SESSION_MS: Final = 30_000
SHORT_SESSION_MS: Final = 6_000  # the shortest that brokers grant
_REBALANCE_MS: Final = 60_000
_ADDRESSES: Final = 8
_OPENED_AT_ONCE: Final = 200
_PATIENCE: Final = 120.0
_SOON: Final = 0.2  # between heartbeats while a group begins


class Done(msgspec.Struct, frozen=True):
    """How many, in which time; how long each was waited for; what it cost the members."""

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
        self.generation = -1  # -1: it is in none
        self.joined = 0.0  # when it knew what it owns

    async def connect(self, port: int, number: int) -> None:
        source = f"127.0.0.{1 + number % _ADDRESSES}", 0
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=source
        )

        await self._find()

    async def _find(self) -> None:
        """Asks for the coordinator until there is one: some brokers begin to be when asked."""
        asked = string(self.group) + struct.pack(">b", 0)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            (error,) = struct.unpack_from(">h", await self._ask(_FIND, 1, asked), 4)
            if not error:
                return
            await asyncio.sleep(_SOON)
        _check(error, "FindCoordinator")

    def close(self) -> None:
        self._writer.close()

    async def _ask(self, key: int, version: int, body: bytes) -> bytes:
        """The answer's body."""
        self._writer.write(frame(key, version, 0, body))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return (await self._reader.readexactly(size))[4:]

    @property
    def _named(self) -> bytes:
        return string(self.group) + struct.pack(">i", self.generation) + string(self.id)

    async def join(self) -> None:
        """Until it knows what it owns, and where to begin there."""
        while not await self._join():
            pass
        if self._share is not None:
            await self._fetch(self._share)
        self.joined = time.monotonic()

    async def _join(self) -> bool:
        times = struct.pack(">ii", self._session_ms, _REBALANCE_MS)
        protocols = struct.pack(">i", 1) + string("range") + struct.pack(">i", 0)
        asked = string(self.group) + times + string(self.id) + string("consumer") + protocols
        answer = await self._ask(_JOIN, 2, asked)
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
        given = _assigned(texts.members()) if leader == self.id else struct.pack(">i", 0)
        named = string(self.group) + struct.pack(">i", generation) + string(self.id)
        answer = await self._ask(_SYNC, 1, named + given)
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
        """False if its group rebalances."""
        answer = await self._ask(_HEARTBEAT, 1, self._named)
        (error,) = struct.unpack_from(">h", answer, 4)
        if error in _OF_ANOTHER_GENERATION:
            return False
        _check(error, "Heartbeat")
        return True

    async def commit(self, topic: str, offset: int, partitions: int) -> None:
        body = self._named + struct.pack(">qi", -1, 1) + string(topic)
        body += struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iqh", each, offset, 0) for each in range(partitions))
        answer = await self._ask(_OFFSET_COMMIT, 2, body)
        first = 4 + len(string(topic)) + 4
        for at in range(first, first + 6 * partitions, 6):
            (error,) = struct.unpack_from(">h", answer, at + 4)
            _check(error, "OffsetCommit")

    async def leave(self) -> None:
        if not self.id:
            return
        answer = await self._ask(_LEAVE, 1, string(self.group) + string(self.id))
        (error,) = struct.unpack_from(">h", answer, 4)
        _check(error, "LeaveGroup")
        self.id, self.generation = "", -1


class Share(msgspec.Struct, frozen=True):
    """Partitions of a topic that a member is thought to own."""

    topic: str
    partitions: Sequence[int]


class _Texts:
    """What stands in an answer one after the other."""

    def __init__(self, answer: bytes, at: int) -> None:
        self._answer, self._at = answer, at

    def take(self) -> str:
        (size,) = struct.unpack_from(">h", self._answer, self._at)
        start = self._at + 2
        self._at = start + size
        return self._answer[start : self._at].decode()

    def members(self) -> list[str]:
        """Their names, without what they say of themselves, which is nothing."""
        (count,) = struct.unpack_from(">i", self._answer, self._at)
        self._at += 4
        found = []
        for _ in range(count):
            found.append(self.take())
            self._at += 4
        return found


def _assigned(members: Sequence[str]) -> bytes:
    each = (string(member) + struct.pack(">i", 0) for member in members)
    return struct.pack(">i", len(members)) + b"".join(each)


def _check(error: int, asked: str) -> None:
    if error:
        raise AnswerError(f"{asked} was answered with error {error}")


class _Members(msgspec.Struct):
    port: int
    all: list[_Member] = []

    async def come(
        self,
        groups: Iterable[str],
        each: int,
        shares: Sequence[Share] = (),
        session_ms: int = 0,
    ) -> Done:
        """So many of each of these groups, until all of a group are in one generation. Of one group
        each may have a share."""
        new = [
            _Member(group, shares[number] if shares else None, session_ms)
            for group in groups
            for number in range(each)
        ]
        gate = asyncio.Semaphore(_OPENED_AT_ONCE)

        async def connect(number: int, member: _Member) -> None:
            async with gate:
                await member.connect(self.port, number)

        await _together(connect(number, member) for number, member in enumerate(new))
        self.all += new
        return await _settled(new, _SOON)

    async def beat(self, seconds: float, every: float) -> Done:
        """Heartbeats of all, evenly spread over the time between two of them."""
        waits: list[float] = []
        began = time.monotonic()

        async def member_beats(number: int, member: _Member) -> None:
            due = began + every * number / len(self.all)
            while due < began + seconds:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                asked = time.monotonic()
                if not await member.heartbeat():
                    raise AnswerError("a group rebalances that has no reason to")
                waits.append(time.monotonic() - asked)
                due += every

        before = time.process_time()
        await _together(itertools.starmap(member_beats, enumerate(self.all)))
        cpu = time.process_time() - before
        return Done(len(waits), time.monotonic() - began, waits, cpu)

    async def commit(self, seconds: float, topic: str, partitions: int) -> Done:
        """As fast as each is answered. Counts partitions."""
        offsets = itertools.count()

        async def once(member: _Member) -> int:
            await member.commit(topic, next(offsets), partitions)
            return partitions

        return await self._for(seconds, once)

    async def come_and_go(self, seconds: float, name: str) -> Done:
        """Each joins a group of its own, again and again another one."""
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
        began, before = time.monotonic(), time.process_time()

        async def again(member: _Member) -> None:
            nonlocal count
            while (asked := time.monotonic()) < began + seconds:
                made = await once(member)
                count += made
                waits.append(time.monotonic() - asked)

        await _together(map(again, self.all))
        return Done(count, time.monotonic() - began, waits, time.process_time() - before)

    async def one_more(self, every: float, share: Share) -> Done:
        """One joins the group of all; the others hear of it by a heartbeat, and join again."""
        newcomer = _Member(self.all[0].group, share)
        await newcomer.connect(self.port, len(self.all))
        self.all.append(newcomer)
        return await _settled(self.all, every)

    async def one_less(self, every: float) -> Done:
        """One of the group of all is gone without a word, just after a heartbeat: the others hear
        of it when its session has ended."""
        gone = self.all.pop()
        generation = gone.generation
        await gone.heartbeat()
        gone.close()
        return await _settled(self.all, every, beyond=generation)

    async def go(self) -> Done:
        began, before = time.monotonic(), time.process_time()
        await _together(map(_Member.leave, self.all))
        done = Done(len(self.all), time.monotonic() - began, (), time.process_time() - before)
        for each in self.all:
            each.close()
        self.all = []
        return done


async def _together(works: Iterable[Awaitable[None]]) -> None:
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*works)


async def _settled(members: Sequence[_Member], every: float, beyond: int = -1) -> Done:
    """From now until the last of them has joined the generation that all of its group are in, a
    later one than `beyond`."""
    groups: dict[str, list[_Member]] = {}
    for member in members:
        groups.setdefault(member.group, []).append(member)
    began, before = time.monotonic(), time.process_time()

    async def one(number: int, member: _Member) -> None:
        if member.generation < 0:
            await member.join()
        else:
            await asyncio.sleep(every * number / len(members))
        while not _is_settled(groups[member.group], beyond):
            if await member.heartbeat():
                await asyncio.sleep(every)
            else:
                await member.join()

    await _together(itertools.starmap(one, enumerate(members)))
    waits = [each.joined - began for each in members]
    return Done(len(members), max(waits), waits, time.process_time() - before)


def _is_settled(group: Sequence[_Member], beyond: int) -> bool:
    generations = {each.generation for each in group}
    return len(generations) == 1 and min(generations) > beyond


def _serve(port: int, pipe: Connection) -> None:
    """In a process of its own: what the pipe asks for, until it is closed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    members = _Members(port)
    with asyncio.Runner() as runner, contextlib.suppress(EOFError):
        while True:
            name, arguments = pipe.recv()
            try:
                pipe.send(runner.run(getattr(members, name)(*arguments)))
            except (AnswerError, OSError, EOFError, TimeoutError) as error:
                pipe.send(AnswerError(f"{name}: {type(error).__name__}: {error}"))


class GroupMembers:
    """Members that wait to be told what to do."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def do(self, name: str, *arguments: Any) -> Done:
        return self.begin(name, *arguments)()

    def begin(self, name: str, *arguments: Any) -> Callable[[], Done]:
        """One of the methods of `_Members`. Returns at once; what it returns waits until that is
        done."""
        self._pipe.send((name, arguments))

        def end() -> Done:
            done = self._pipe.recv()
            if isinstance(done, AnswerError):
                raise done
            assert isinstance(done, Done)
            return done

        return end


@contextlib.contextmanager
def group_members(port: int) -> Iterator[GroupMembers]:
    """None yet. Those who are there in the end leave."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(port, theirs), daemon=True
    )
    process.start()
    theirs.close()
    members = GroupMembers(ours)
    try:
        yield members
        members.begin("go")()
    finally:
        ours.close()
        process.join(_PATIENCE)
        process.kill()
