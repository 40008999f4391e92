"""ACLs as they stand in ZooKeeper: a node for each pattern, with all rules on it, in Kafka's JSON.

    /acls/literal/Topic/page_views     on that topic; `*` is every topic
    /acls/prefixed/Topic/team-a.       on topics whose names begin so
    /acls/literal/Cluster/kafka-cluster

Every change is a compare-and-set on the whole node, so two that add different rules at once both
get through. A node without rules is removed. A crash leaves a change made or not made; one that
concerns several patterns may have been made to some. Brokers follow these nodes with the rest of
the map (`cluster.view`).
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from cluster import nodes, paths
from cluster.errors import ClusterError, Conflict
from cluster.operations import Create, Delete, Operation, Set
from cluster.session import Session
from wire.acls import Acl, ResourcePattern

MAX_BYTES: Final = 256 * 1024  # of one node; ZooKeeper refuses requests of 1 MiB


def standing(session: Session, pattern: ResourcePattern) -> tuple[Acl, ...]:
    """The rules on a pattern."""
    return _standing(session, pattern)[0]


def add(session: Session, pattern: ResourcePattern, acls: Iterable[Acl]) -> None:
    """Those that stand there already are not added again."""
    _alter(session, pattern, added=frozenset(acls), removed=frozenset())


def remove(session: Session, pattern: ResourcePattern, acls: Collection[Acl]) -> None:
    """Those that are not there are not missed."""
    _alter(session, pattern, added=frozenset(), removed=frozenset(acls))


def _alter(
    session: Session,
    pattern: ResourcePattern,
    *,
    added: frozenset[Acl],
    removed: frozenset[Acl],
) -> None:
    path = paths.acl(pattern)
    while True:
        before, version = _standing(session, pattern)
        after = tuple(sorted((set(before) | added) - removed))
        if after == before:
            return
        data = nodes.encode(nodes.acl_node(after))
        if len(data) > MAX_BYTES:
            raise ClusterError(
                f"the ACLs on {pattern.name[:80]!r} would have {len(data)} bytes, {MAX_BYTES} are "
                "allowed: give fewer principals a rule of their own"
            )
        operation: Operation
        if version is None:
            operation = Create(path, data)
        elif after:
            operation = Set(path, data, version)
        else:
            operation = Delete(path, version)
        try:
            session.write([operation], partial(_is, session, pattern, after))
        except Conflict:  # somebody else has changed them in between
            continue
        return


def _is(session: Session, pattern: ResourcePattern, acls: tuple[Acl, ...]) -> bool:
    return standing(session, pattern) == acls


def _standing(session: Session, pattern: ResourcePattern) -> tuple[tuple[Acl, ...], int | None]:
    path = paths.acl(pattern)
    node = session.read(path)
    if node is None:
        return (), None
    return nodes.acls_of(path, node.data), node.version
