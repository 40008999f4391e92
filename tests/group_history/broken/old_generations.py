"""A coordinator accepts what any member commits, also one that was in an earlier generation."""

from broker.groups.group import Group
from broker.groups.values import State
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of
from wire.errors import ErrorCode


@in_place_of(Group, "check_commit")
def _check_commit(before: object, group: Group, *_: object) -> ErrorCode:
    dead = group.state is State.DEAD
    return ErrorCode.coordinator_not_available if dead else ErrorCode.none


if __name__ == "__main__":
    main()
