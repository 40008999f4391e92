"""A group that this broker coordinates, with the coordinator's bookkeeping."""

import asyncio
from collections.abc import Callable

from broker.groups.client_fairness import Client
from broker.groups.membership.group import Group
from broker.groups.membership.values import State
from cluster.values import GroupFence


class LiveGroup:
    """A group in memory. `maker` is the client whose share the group counts against, `touched`
    counts joins and commits, `under_way` counts unfinished commits and deletions of offsets. The
    timer may fire too early, which costs less than resetting it at each heartbeat."""

    __slots__ = (
        "_timer", "empty_since_ms", "fence", "generation", "group", "is_watched", "maker", "name",
        "size", "told_at", "touched", "under_way", "was_unused",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        group: Group,
        fence: GroupFence,
        empty_since_ms: int | None,
        maker: Client,
    ) -> None:
        self.name = name
        self.maker = maker
        self.group = group
        self.fence = fence
        self.empty_since_ms = empty_since_ms
        self.generation = group.generation
        self.size = 0
        self.touched = 0
        self.under_way = 0
        self.is_watched = False  # whether a task is finding out if it can be forgotten
        self.was_unused = True
        self.told_at: float | None = None  # when it was last logged
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_empty(self) -> bool:
        return self.group.state is State.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether the group has no members, no pending joins, and no unsaved state."""
        return self.is_empty and self.group.is_idle

    @property
    def had_members(self) -> bool:
        return self.group.generation > 0

    def is_empty_since(self, before_ms: int) -> bool:
        """Returns whether the group has been empty since `before_ms`, or never had a member."""
        if not self.had_members:
            return True
        return self.empty_since_ms is not None and self.empty_since_ms <= before_ms

    def set_timer(
        self,
        loop: asyncio.AbstractEventLoop,
        at: float | None,
        call: Callable[["LiveGroup"], None],
    ) -> None:
        """Calls `call` at the time `at` or earlier; never if `at` is None."""
        if self._timer is not None:
            if at is not None and self._timer.when() <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = loop.call_at(at, call, self)

    def timer_fired(self) -> None:
        self._timer = None
