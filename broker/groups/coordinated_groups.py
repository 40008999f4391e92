"""The groups that this broker coordinates: takes them over, maintains, saves and releases them.

A group is taken over (`cluster.groups.groups`) when a client asks for it; clients that ask while it
is being loaded wait for it. From then on it is a `Group` in memory; after every event, `after` sets
its timer and has its changes saved.

Belongs to the event loop.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec

from broker.errors import ApiError
from broker.groups.client_fairness import Client, Shares, Turns
from broker.groups.error_codes import code_of, told
from broker.groups.group_store import GroupStore
from broker.groups.live_group import LiveGroup
from broker.groups.membership.group import Group
from broker.groups.membership.values import GroupRecord, GroupRules
from broker.groups.metrics import GroupCounts
from broker.groups.offset_commits import Commits
from broker.groups.placement import candidates, first_of
from cluster.errors import ClusterError, Fenced, InvalidGroupName, OtherGroupKind, Unavailable
from cluster.groups.offsets import OffsetWriter
from cluster.layout.names import check_group_name
from cluster.session.session import Session, SessionState
from cluster.values import ClusterSnapshot
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS: Final = 4
_PATIENCE: Final = 5.0  # seconds that a client waits for a group to be loaded
_BETWEEN_LINES: Final = 10.0  # seconds between log lines about one group
_LONGEST_REASON: Final = 300


class CoordinatorRules(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for coordination, besides those for each group."""

    group: GroupRules = msgspec.field(default_factory=GroupRules)
    most_groups: int = 10_000
    most_bytes: int = 128 << 20
    commit_bytes: int = 64 << 20
    retention_seconds: float = 7 * 86_400.0
    look_seconds: float = 600.0
    """The interval between checks for expired offsets and unused groups."""


Failed = Callable[[str, str], None]
"""Called with a group's name and what has failed. Clients can make this happen often."""


class CoordinatedGroups:
    """The groups of one broker. Calls `on_unused` with a group that never had a member, and may be
    unused; sets `changed` when the map may have assigned other groups to this broker."""

    def __init__(
        self,
        session: Session,
        broker_id: int,
        rules: CoordinatorRules,
        counts: GroupCounts,
        failed: Failed,
    ) -> None:
        self._failed = failed
        self.live: dict[str, LiveGroup] = {}
        self.members_bytes = Shares(rules.most_bytes)
        self.store = GroupStore(session, broker_id)
        self.commits = Commits(OffsetWriter(session), counts, most_bytes=rules.commit_bytes)
        self.changed = asyncio.Event()
        self.on_unused: Callable[[LiveGroup], None] = _nothing
        self._session = session
        self._broker_id = broker_id
        self._rules = rules
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, "groups")
        self._turns = Turns(_THREADS)
        self._count = Shares(rules.most_groups)
        self._busy: dict[str, asyncio.Task[Any]] = {}  # being loaded or deleted
        self._tasks: set[asyncio.Task[None]] = set()
        self._brokers: frozenset[int] = frozenset()
        self._cut_off = False
        self._without_zookeeper: asyncio.TimerHandle | None = None
        self._stopped = False
        session.add_listener(self._session_changed)

    def give_up(self) -> None:
        """Stops coordinating, and answers waiting clients."""
        self._stopped = True
        if self._without_zookeeper is not None:
            self._without_zookeeper.cancel()
        self._give_up_all(ErrorCode.not_coordinator)

    async def stop(self) -> None:
        self.give_up()
        await asyncio.gather(*self._tasks, *self._busy.values(), return_exceptions=True)
        await self.commits.stop()
        await asyncio.to_thread(self._threads.shutdown)

    # Which groups

    def follow(self, snapshot: ClusterSnapshot) -> None:
        brokers = candidates(snapshot)
        if brokers != self._brokers:
            self._brokers = brokers
            for group in tuple(self.live.values()):
                if not self.is_ours(group.name):
                    self.drop(group, ErrorCode.not_coordinator)
            self.changed.set()

    def coordinator_of(self, name: str) -> int | None:
        """Returns a group's coordinator according to this broker's map; None if no broker can
        coordinate."""
        return first_of(name, self._brokers)

    def is_ours(self, name: str) -> bool:
        return self.coordinator_of(name) == self._broker_id

    def _session_changed(self, state: SessionState) -> None:
        """Runs on a thread of ZooKeeper's client."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note_session, state)

    def _note_session(self, state: SessionState) -> None:
        if self._without_zookeeper is not None:
            self._without_zookeeper.cancel()
            self._without_zookeeper = None
        if state is SessionState.CONNECTED:
            self._cut_off = False
            self.changed.set()
        elif state is SessionState.LOST:
            self._give_up_all(ErrorCode.not_coordinator)
        elif not self._stopped:
            wait_seconds = self._session.timeout_s
            self._without_zookeeper = self._loop.call_later(wait_seconds, self._lose_zookeeper)

    def _lose_zookeeper(self) -> None:
        self._cut_off = True
        log.warning(
            "no answer from ZooKeeper for a session timeout, giving up groups groups=%d",
            len(self.live),
        )
        self._give_up_all(ErrorCode.coordinator_not_available)

    def _give_up_all(self, code: ErrorCode) -> None:
        for live_group in tuple(self.live.values()):
            self.drop(live_group, code)

    def drop(self, live_group: LiveGroup, code: ErrorCode) -> None:
        if self.live.get(live_group.name) is live_group:
            del self.live[live_group.name]
            self.members_bytes.take(live_group.maker, -live_group.size)
            self._count.take(live_group.maker, -1)
        live_group.set_timer(self._loop, None, self._time_up)
        self.commits.forget(live_group.fence)
        live_group.group.die(code)

    # Finding one

    async def find(
        self, name: str, *, make: bool = False, client: Client = None
    ) -> LiveGroup | None:
        """Returns a group; None if the group does not exist and `make` is not set. Raises
        ApiError."""
        while True:
            live_group = self.live.get(name)
            if live_group is not None:
                return live_group
            self._check_name(name)
            busy_task = self._busy.get(name)
            if busy_task is not None:
                finished_tasks, _ = await asyncio.wait({busy_task}, timeout=_PATIENCE)
                if not finished_tasks:
                    raise ApiError(
                        ErrorCode.coordinator_load_in_progress, f"group {name!r} is being loaded"
                    )
                if (error := busy_task.exception()) is not None:
                    raise _api_error(error)
                continue
            if make and not self._count.has_room(client, 1):
                raise ApiError(
                    ErrorCode.policy_violation,
                    f"this broker coordinates {self._count.taken} of at most "
                    f"{self._rules.most_groups} groups, and the rest is reserved for other "
                    "clients (limits.groups)",
                )
            load_task = self._busy[name] = asyncio.ensure_future(
                self._load(name, make=make, client=client)
            )
            load_task.add_done_callback(_look_at)
            try:
                return await asyncio.shield(load_task)
            except ClusterError as error:
                raise told(error) from None

    def check_serves(self) -> None:
        if self._stopped or self._cut_off:
            raise ApiError(
                ErrorCode.coordinator_not_available,
                "this broker coordinates no groups at the moment",
            )

    def _check_name(self, name: str) -> None:
        try:
            check_group_name(name)
        except InvalidGroupName as error:
            raise told(error) from None
        self.check_serves()
        if not self.is_ours(name):
            raise ApiError(ErrorCode.not_coordinator, f"another broker coordinates group {name!r}")

    async def _load(self, name: str, *, make: bool, client: Client) -> LiveGroup | None:
        maker = client if make else None
        self._count.take(maker, 1)
        live_group = None
        try:
            live_group = await self._loaded(name, maker, make=make, client=client)
        finally:
            del self._busy[name]
            if live_group is None:
                self._count.take(maker, -1)
        if live_group is not None:
            self.live[name] = live_group
            self.after(live_group)
        return live_group

    async def _loaded(
        self, name: str, maker: Client, *, make: bool, client: Client
    ) -> LiveGroup | None:
        try:
            loaded_group = await self.in_thread(
                lambda: self.store.take(name, make=make, now_ms=now_ms()), client
            )
        except OtherGroupKind:
            raise
        except ClusterError as error:
            self._failed(name, f"not loaded: {error}")
            raise
        if loaded_group is None:
            return None
        self._check_name(name)  # the map may have changed meanwhile
        group = Group.from_record(loaded_group.record, self._rules.group, self._loop.time())
        return LiveGroup(name, group, loaded_group.fence, loaded_group.empty_since_ms, maker)

    async def written(
        self, live_group: LiveGroup, writing: Coroutine[Any, Any, ErrorCode]
    ) -> ErrorCode:
        live_group.under_way += 1
        try:
            code = await writing
        finally:
            live_group.under_way -= 1
        if code is ErrorCode.not_coordinator and self.live.get(live_group.name) is live_group:
            log.info("group has moved to another broker group=%r", live_group.name)
            self.drop(live_group, code)
        return code

    # Consequences

    def after(self, live_group: LiveGroup, *, look: bool = False) -> None:
        """Handles the consequences of an event. With `look`, reports the group as unused even if it
        was before."""
        if self.live.get(live_group.name) is not live_group:
            return
        group = live_group.group
        if (size := group.size) != live_group.size:
            self.members_bytes.take(live_group.maker, size - live_group.size)
            live_group.size = size
        if group.generation != live_group.generation:
            self._counts.rebalances += group.generation - live_group.generation
            live_group.generation = group.generation
            self._tell_of(live_group)
        if not live_group.is_empty:
            live_group.empty_since_ms = None
        elif live_group.empty_since_ms is None:
            live_group.empty_since_ms = now_ms()
        record = group.take_save()
        if record is not None:
            self.start(self._save(live_group, record))
        live_group.set_timer(self._loop, group.next_time(), self._time_up)
        is_unused = live_group.is_unused and not live_group.had_members
        if is_unused and (look or not live_group.was_unused) and not live_group.is_watched:
            self.on_unused(live_group)
        live_group.was_unused = is_unused

    def _tell_of(self, live_group: LiveGroup) -> None:
        """Log a new generation, except those that follow quickly on a logged one."""
        now, group = self._loop.time(), live_group.group
        if live_group.told_at is None or now - live_group.told_at > _BETWEEN_LINES:
            live_group.told_at = now
            log.info(
                "group rebalanced group=%r generation=%d members=%d reason=%r",
                *(live_group.name, group.generation, len(group), group.reason[:_LONGEST_REASON]),
            )

    def _time_up(self, live_group: LiveGroup) -> None:
        live_group.timer_fired()
        live_group.group.advance(self._loop.time())
        self.after(live_group)

    async def _save(self, live_group: LiveGroup, record: GroupRecord) -> None:
        empty_since_ms = None if record.members else live_group.empty_since_ms or now_ms()
        try:
            await self.in_thread(lambda: self.store.save(live_group.fence, record, empty_since_ms))
        except Fenced:
            log.info("group has moved to another broker group=%r", live_group.name)
            self.drop(live_group, ErrorCode.not_coordinator)
        except ClusterError as error:
            self._failed(live_group.name, f"not saved: {error}")
            live_group.group.not_saved(code_of(error), self._loop.time())
        except Exception:
            log.exception("group not saved group=%r", live_group.name)
            live_group.group.not_saved(ErrorCode.unknown_server_error, self._loop.time())
        else:
            live_group.group.saved(self._loop.time())
        self.after(live_group)

    def begin_deleting(self, live_group: LiveGroup) -> asyncio.Task[None]:
        """Drops the group, and returns the task that deletes it. Clients that ask for the group
        wait for the task."""
        self.drop(live_group, ErrorCode.group_id_not_found)
        task = self._busy[live_group.name] = asyncio.ensure_future(self._delete(live_group))
        task.add_done_callback(_look_at)
        return task

    async def _delete(self, live_group: LiveGroup) -> None:
        try:
            await self.in_thread(lambda: self.store.delete(live_group.fence))
        finally:
            del self._busy[live_group.name]

    # Threads and tasks

    async def in_thread(self, work: Callable[[], T], client: Client = None) -> T:
        """Runs a call on a thread, after the client's earlier calls. Without ZooKeeper each call
        takes a whole session timeout; calls queued before the loss was noticed fail at once."""

        def run() -> T:
            if self._cut_off:
                raise Unavailable("ZooKeeper has not answered for a session timeout")
            return work()

        async with self._turns.of(client):
            return await self._loop.run_in_executor(self._threads, run)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Mark its error as seen: the clients that waited for it may have gone."""
    if not task.cancelled():
        task.exception()


def _api_error(error: BaseException) -> BaseException:
    return told(error) if isinstance(error, ClusterError) else error


def _nothing(_live: LiveGroup) -> None:
    return None


def now_ms() -> int:
    return time.time_ns() // 1_000_000
