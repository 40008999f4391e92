"""What of a cluster stands in ZooKeeper alone, and is lost with it: configs, users, quotas, ACLs.

Topics, their ids and who has which partition stand on the brokers' disks as well (`recover`), and
there they are newer than in any copy: a copy of leader epochs would have them run backwards. Group
offsets are read and written through the brokers. So a copy has neither.

A copy is brought back node by node. What stands there already is left as it is, and said if it is
another thing; repeating it changes nothing. A crash in between leaves a part of it, and a new run
makes that good.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster import identity, paths
from cluster.errors import Cause, Conflict, InvalidTopicName, MapDisagrees
from cluster.names import user_of_node
from cluster.operations import Create
from cluster.session import Session

MOST_BYTES: Final = 1024 * 1024  # of one node, as ZooKeeper has it

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
    """What became of each node, by its path."""

    created: tuple[str, ...]
    unchanged: tuple[str, ...]
    others: tuple[str, ...]  # there is another thing, which was left
    without_topic: tuple[str, ...]  # the configs of topics that there are not


def kind_of(path: str) -> str:
    """Of a path that `is_known`: what it is, in words."""
    return next(words for each, words in KINDS.items() if path == each or _is_below(path, each))


def is_known(path: str) -> bool:
    """Whether such a node may come from outside: it is one that `contents` could have had."""
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
    """All such nodes as they are now; each is as it was at a moment of its own."""
    wanted = [paths.LOGIN_KEY]
    for folder in _FOLDERS:
        wanted += [f"{folder}/{each}" for each in session.children(folder) or ()]
    nodes = zip(wanted, session.read_all(wanted), strict=True)
    return {path: node.data for path, node in sorted(nodes) if node and is_known(path)}


def bring_back(session: Session, cluster_id: str, kept: Contents) -> BroughtBack:
    """Raises MapDisagrees, before anything is written, if the map is another cluster's."""
    found = identity.find_cluster_id(session)
    if found not in {None, cluster_id}:
        raise MapDisagrees(
            f"nothing was restored: the map is cluster {found}'s, the backup cluster {cluster_id}'s"
        )
    identity.claim_cluster_id(session, cluster_id)
    topics = frozenset(session.children(paths.TOPICS) or ())
    became: dict[str, list[str]] = {"created": [], "unchanged": [], "others": [], "without": []}
    for path, data in sorted(kept.items()):
        if _is_below(path, paths.TOPIC_CONFIGS) and path.rpartition("/")[2] not in topics:
            became["without"].append(path)
        else:
            became[_brought_back(session, path, data)].append(path)
    return BroughtBack(
        created=tuple(became["created"]),
        unchanged=tuple(became["unchanged"]),
        others=tuple(became["others"]),
        without_topic=tuple(became["without"]),
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


def kinds(found: Contents) -> Iterator[tuple[str, int]]:
    """How many there are of each."""
    words = [kind_of(each) for each in found]
    for each in KINDS.values():
        if each in words:
            yield each, words.count(each)
