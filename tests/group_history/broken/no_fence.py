"""A coordinator writes whether it has been followed by another one or not."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from cluster import group_offsets, groups
from cluster.operations import Operation
from cluster.session import Session
from cluster.values import GroupFence
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of


@in_place_of(group_offsets, "write_fenced")
@in_place_of(groups, "write_fenced")
def _write(
    _before: Callable[..., None],
    session: Session,
    _fences: Iterable[GroupFence],
    operations: Sequence[Operation],
) -> None:
    session.write(operations, done=partial(session.stand, tuple(operations)))


if __name__ == "__main__":
    main()
