"""ACLs in ZooKeeper: a node per pattern with all its rules, in Kafka's JSON.

    /acls/literal/Topic/page_views     on that topic; `*` is every topic
    /acls/prefixed/Topic/team-a.       on topics with this prefix
    /acls/literal/Cluster/kafka-cluster

Every change is a compare-and-set on the whole node, so concurrent additions of different rules both
succeed. A node without rules is removed (`removable`). After a crash, a change is made or not made;
one that concerns several patterns may have been made to some. Brokers follow these nodes with the
rest of the map (`cluster.view`).
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from cluster.errors import ClusterError, Conflict
from cluster.layout import nodes, paths
from cluster.records import removable
from cluster.records.removable import Removable
from cluster.session.session import Session
from wire.acls import Acl, ResourcePattern

MAX_BYTES: Final = 256 * 1024  # of one node; ZooKeeper rejects requests of 1 MiB


def standing(session: Session, pattern: ResourcePattern) -> tuple[Acl, ...]:
    """The rules on a pattern."""
    return _standing(removable.read(session, paths.acl(pattern)))


def add(session: Session, pattern: ResourcePattern, acls: Iterable[Acl]) -> None:
    """Adds rules; existing ones are skipped."""
    _alter(session, pattern, added=frozenset(acls), removed=frozenset())


def remove(session: Session, pattern: ResourcePattern, acls: Collection[Acl]) -> None:
    """Removes rules; missing ones are ignored."""
    _alter(session, pattern, added=frozenset(), removed=frozenset(acls))


def _alter(
    session: Session,
    pattern: ResourcePattern,
    *,
    added: frozenset[Acl],
    removed: frozenset[Acl],
) -> None:
    while True:
        node = removable.read(session, paths.acl(pattern))
        old_acls = _standing(node)
        new_acls = tuple(sorted((set(old_acls) | added) - removed))
        if new_acls == old_acls:
            return
        data = nodes.encode(nodes.acl_node(new_acls))
        if len(data) > MAX_BYTES:
            raise ClusterError(
                f"the ACLs on {pattern.name[:80]!r} would have {len(data)} bytes; {MAX_BYTES} are "
                "allowed: reduce the number of principals with rules"
            )
        is_done = partial(_is, session, pattern, new_acls)
        try:
            if new_acls:
                node.replace(session, data, is_done)
            else:
                node.remove(session, is_done)
        except Conflict:  # changed concurrently
            continue
        return


def _is(session: Session, pattern: ResourcePattern, acls: tuple[Acl, ...]) -> bool:
    return standing(session, pattern) == acls


def _standing(node: Removable) -> tuple[Acl, ...]:
    return () if node.data is None else nodes.acls_of(node.path, node.data)
