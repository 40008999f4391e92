"""ACLs as they stand in ZooKeeper: a node for each pattern, with all rules on it, in Kafka's JSON.

    /acls/literal/Topic/page_views     on that topic; `*` is every topic
    /acls/prefixed/Topic/team-a.       on topics whose names begin so
    /acls/literal/Cluster/kafka-cluster

Every change is a compare-and-set on the whole node, so two that add different rules at once both
get through. A node without rules is removed (`removable`). A crash leaves a change made or not
made; one that concerns several patterns may have been made to some. Brokers follow these nodes with
the rest of the map (`cluster.view`).
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from cluster import nodes, paths, removable
from cluster.errors import ClusterError, Conflict
from cluster.removable import Removable
from cluster.session import Session
from wire.acls import Acl, ResourcePattern

MAX_BYTES: Final = 256 * 1024  # of one node; ZooKeeper refuses requests of 1 MiB


def standing(session: Session, pattern: ResourcePattern) -> tuple[Acl, ...]:
    """The rules on a pattern."""
    return _standing(removable.read(session, paths.acl(pattern)))


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
    while True:
        found = removable.read(session, paths.acl(pattern))
        before = _standing(found)
        after = tuple(sorted((set(before) | added) - removed))
        if after == before:
            return
        data = nodes.encode(nodes.acl_node(after))
        if len(data) > MAX_BYTES:
            raise ClusterError(
                f"the ACLs on {pattern.name[:80]!r} would have {len(data)} bytes, {MAX_BYTES} are "
                "allowed: give fewer principals a rule of their own"
            )
        done = partial(_is, session, pattern, after)
        try:
            if after:
                found.replace(session, data, done)
            else:
                found.remove(session, done)
        except Conflict:  # somebody else has changed them in between
            continue
        return


def _is(session: Session, pattern: ResourcePattern, acls: tuple[Acl, ...]) -> bool:
    return standing(session, pattern) == acls


def _standing(found: Removable) -> tuple[Acl, ...]:
    return () if found.data is None else nodes.acls_of(found.path, found.data)
