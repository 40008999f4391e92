"""A group that is coordinated here, and what its coordinator keeps with it."""

import asyncio
from collections.abc import Callable

from broker.groups.group import Group
from broker.groups.turns import Client
from broker.groups.values import State
from cluster.values import GroupFence


class LiveGroup:
    """`maker` is the client whose share it is of, `touched` counts joins and commits, `under_way`
    is how many commits and deletions of offsets are. A timer that comes too early costs less than
    one that is put off at each beat."""

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
        self.is_watched = False  # whether somebody is about to find out if it can be forgotten
        self.was_unused = True
        self.told_at: float | None = None  # when there was a line of it in the log
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_empty(self) -> bool:
        """Nobody is in it."""
        return self.group.state is State.EMPTY

    @property
    def is_unused(self) -> bool:
        """Nobody is in it, is about to be, or was until now: all of that is saved."""
        return self.is_empty and self.group.is_idle

    @property
    def had_members(self) -> bool:
        """Whether anybody was ever in it."""
        return self.group.generation > 0

    def is_empty_since(self, before_ms: int) -> bool:
        """Whether it was without members then and has been since; or never had one."""
        if not self.had_members:
            return True
        return self.empty_since_ms is not None and self.empty_since_ms <= before_ms

    def set_timer(
        self,
        loop: asyncio.AbstractEventLoop,
        at: float | None,
        call: Callable[["LiveGroup"], None],
    ) -> None:
        """`call` it then, or before; never, without a time."""
        if self._timer is not None:
            if at is not None and self._timer.when() <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = loop.call_at(at, call, self)

    def timer_fired(self) -> None:
        self._timer = None
