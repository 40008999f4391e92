"""Coordinators that leave out a promise of docs/groups.md."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from broker.groups.membership.group import Group
from broker.groups.membership.values import State
from broker.groups.offset_commits import Commits
from cluster.groups import groups
from cluster.groups import offsets as group_offsets
from cluster.session.operations import Operation
from cluster.session.session import Session
from cluster.values import GroupFence
from tests.campaigns.flaws import Flaw, in_place_of, run_broken
from wire.errors import ErrorCode

_UNDER_WAY: set["asyncio.Future[ErrorCode]"] = set()


def answered_too_soon() -> None:
    @in_place_of(Commits, "commit")
    async def _commit(
        before: Callable[..., Awaitable[ErrorCode]], commits: Commits, *offsets: Any
    ) -> ErrorCode:
        writing = asyncio.ensure_future(before(commits, *offsets))
        _UNDER_WAY.add(writing)
        writing.add_done_callback(_UNDER_WAY.discard)
        return ErrorCode.none


def no_fence() -> None:
    @in_place_of(group_offsets, "write_fenced")
    @in_place_of(groups, "write_fenced")
    def _write(
        _before: Callable[..., None],
        session: Session,
        _fences: Iterable[GroupFence],
        operations: Sequence[Operation],
    ) -> None:
        session.write(operations, done=partial(session.stand, tuple(operations)))


def old_generations() -> None:
    @in_place_of(Group, "check_commit")
    def _check_commit(before: object, group: Group, *_: object) -> ErrorCode:
        dead = group.state is State.DEAD
        return ErrorCode.coordinator_not_available if dead else ErrorCode.none


FLAWS: Final = {
    "answered-too-soon": Flaw(
        rule="1",
        left_out="a commit is answered when it is durable",
        script="dark-zookeeper",
        breaks=frozenset({"lost"}),
        make=answered_too_soon,
    ),
    "no-fence": Flaw(
        rule="2",
        left_out="a broker that another one has followed writes nothing",
        script="follower-of-a-frozen-one",
        breaks=frozenset({"lost", "generations", "old", "shared"}),
        make=no_fence,
    ),
    "old-generations": Flaw(
        rule="2",
        left_out="who is not in the present generation commits nothing",
        script="come-and-go",
        breaks=frozenset({"old", "stranger"}),
        make=old_generations,
    ),
}

if __name__ == "__main__":
    run_broken(FLAWS)
