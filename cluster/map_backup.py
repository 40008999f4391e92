"""Backup and restore of cluster data that only ZooKeeper has: configs, users, quotas, ACLs.

Topics, their ids and the assignment of partitions are on the brokers' disks as well (`recover`),
where they are newer than in any copy: a copy of leader epochs would make them run backwards. Group
offsets are read and written through the brokers. So a copy contains neither.

A copy is restored node by node. Existing nodes are left alone, and reported if they differ;
repetition changes nothing. A crash leaves a part, and a new run completes it.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.errors import Cause, Conflict, InvalidTopicName, MapDisagrees
from cluster.layout import paths
from cluster.layout.names import user_of_node
from cluster.records import identity
from cluster.session.operations import Create
from cluster.session.session import Session

MOST_BYTES: Final = 1024 * 1024  # of one node: ZooKeeper's limit

Contents = Mapping[str, bytes]  # by path

_FOLDERS: Final = (
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.USER_CONFIGS,
    paths.QUOTAS,
    *paths.ACL_DIRECTORIES,
)
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        paths.TOPIC_CONFIGS: "configs of topics",
        paths.BROKER_CONFIGS: "configs of brokers",
        paths.USER_CONFIGS: "users",
        paths.QUOTAS: "quotas",
        paths.ACLS: "patterns with ACLs",
        paths.LOGIN_KEY: "login key",
    }
)


class BroughtBack(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of a backup's nodes, grouped by what a restore did with them."""

    created: tuple[str, ...]
    unchanged: tuple[str, ...]
    others: tuple[str, ...]  # exist with other contents, which were left alone
    without_topic: tuple[str, ...]  # configs of topics that do not exist


def kind_of(path: str) -> str:
    """Returns, in words, the kind of node at a path for which `is_known` is true."""
    return next(kind for root, kind in KINDS.items() if path == root or _is_below(path, root))


def is_known(path: str) -> bool:
    """Whether `contents` could have returned a node with this path."""
    if path == paths.LOGIN_KEY:
        return True
    folder, _, segment = path.rpartition("/")
    if folder == paths.TOPIC_CONFIGS:
        try:
            return paths.topic_config(segment) == path
        except InvalidTopicName:
            return False
    if folder == paths.BROKER_CONFIGS:
        return segment == paths.DEFAULT_BROKER or (segment.isascii() and segment.isdigit())
    if folder == paths.USER_CONFIGS:
        return user_of_node(segment) is not None
    if folder in paths.ACL_DIRECTORIES:
        return paths.acl_pattern(folder, segment) is not None
    return folder == paths.QUOTAS and segment.isprintable() and segment not in {"", ".", ".."}


def contents(session: Session) -> dict[str, bytes]:
    """Returns the nodes to back up. They are read one after the other, so they are not a snapshot
    of one moment."""
    candidates = [paths.LOGIN_KEY]
    for folder in _FOLDERS:
        candidates += [f"{folder}/{child}" for child in session.children(folder) or ()]
    nodes = zip(candidates, session.read_all(candidates), strict=True)
    return {path: node.data for path, node in sorted(nodes) if node and is_known(path)}


def bring_back(session: Session, cluster_id: str, kept: Contents) -> BroughtBack:
    """Restores a backup. Raises MapDisagrees before writing if the map belongs to another
    cluster."""
    existing_id = identity.find_cluster_id(session)
    if existing_id not in {None, cluster_id}:
        raise MapDisagrees(
            f"nothing was restored: the map is cluster {existing_id}'s, "
            f"the backup cluster {cluster_id}'s"
        )
    identity.claim_cluster_id(session, cluster_id)
    topics = frozenset(session.children(paths.TOPICS) or ())
    outcomes: dict[str, list[str]] = {"created": [], "unchanged": [], "others": [], "without": []}
    for path, data in sorted(kept.items()):
        if _is_below(path, paths.TOPIC_CONFIGS) and path.rpartition("/")[2] not in topics:
            outcomes["without"].append(path)
        else:
            outcomes[_brought_back(session, path, data)].append(path)
    return BroughtBack(
        created=tuple(outcomes["created"]),
        unchanged=tuple(outcomes["unchanged"]),
        others=tuple(outcomes["others"]),
        without_topic=tuple(outcomes["without"]),
    )


def _brought_back(session: Session, path: str, data: bytes) -> str:
    def stands() -> bool:
        node = session.read(path)
        return node is not None and node.data == data

    if stands():
        return "unchanged"
    try:
        session.write([Create(path, data)], done=stands)
    except Conflict as conflict:
        if conflict.cause is not Cause.EXISTS:
            raise
        return "unchanged" if stands() else "others"
    return "created"


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def kinds(contents: Contents) -> Iterator[tuple[str, int]]:
    """Counts the nodes of each kind."""
    kind_names = [kind_of(path) for path in contents]
    for kind in KINDS.values():
        if kind in kind_names:
            yield kind, kind_names.count(kind)
