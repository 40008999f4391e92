"""How much clients may have of each broker: quotas in ZooKeeper, one node for each entity.

    /config/quotas/client-id=loader,user=alice   {"version":1,"config":{"consumer_byte_rate":"1e6"}}
    /config/quotas/user                          all users that have no other

What the quotas mean is the broker's business (broker/quotas.py).
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from cluster import nodes, paths, removable
from cluster.errors import ClusterError, Conflict, NodeUnreadable
from cluster.followed_directory import Contents, FollowedDirectory
from cluster.nodes import ConfigNode
from cluster.session import Session

USER: Final = "user"
CLIENT: Final = "client-id"
ADDRESS: Final = "ip"

EntityPart = tuple[str, str | None]  # which of the three, and whose; None: all others
Entity = tuple[EntityPart, ...]  # by their types' names
QuotaValues = Mapping[str, float]
QuotaSnapshot = Mapping[Entity, QuotaValues]

NONE: Final[QuotaSnapshot] = MappingProxyType({})
MOST: Final = 10_000  # entities; ZooKeeper's list of them must stay far below 1 MiB

log = logging.getLogger(__name__)


def alter(session: Session, entity: Entity, change: Callable[[QuotaValues], QuotaValues]) -> None:
    """Replace an entity's quotas by what `change` makes of them. `change` must be pure: it is
    called anew when somebody else was faster."""
    path = f"{paths.QUOTAS}/{node_name(entity)}"
    while True:
        found = removable.read(session, path)
        before = {} if found.data is None else _values(path, found.data)
        after = dict(change(before))
        if after == before:
            return
        if found.data is None and len(session.children(paths.QUOTAS) or ()) >= MOST:
            raise ClusterError(f"there are quotas for {MOST} entities: no more can be added")
        done = partial(_is, session, path, after)
        with contextlib.suppress(Conflict):  # then somebody else was faster
            if after:
                config = {key: repr(each) for key, each in after.items()}
                found.replace(session, nodes.encode(ConfigNode(config=config)), done)
            else:
                found.remove(session, done)
            return


class QuotasView:
    """Always has the quotas as they were read last; from `start` on, it follows ZooKeeper."""

    def __init__(self, session: Session, on_change: Callable[[QuotaSnapshot], None]) -> None:
        """`on_change` gets every snapshot, on the thread that read it."""
        self.quotas = NONE
        self._on_change = on_change
        self._directory = FollowedDirectory(session, paths.QUOTAS, self._take)

    def start(self) -> None:
        self._directory.start()

    def close(self) -> None:
        self._directory.close()

    def refresh(self) -> None:
        """Returns when all is known here that anyone had written before this call."""
        self._directory.refresh()

    def _take(self, contents: Contents) -> None:
        found = {}
        for name, data in contents.items():
            entity = entity_of(name)
            if entity is None:
                continue
            try:
                found[entity] = _values(f"{paths.QUOTAS}/{name}", data)
            except NodeUnreadable as error:
                log.warning("quotas unreadable, and not in force error=%r", str(error))
        self.quotas = MappingProxyType(found)
        self._on_change(self.quotas)


def node_name(entity: Entity) -> str:
    return ",".join(
        kind if name is None else f"{kind}={quote(name, safe='')}" for kind, name in entity
    )


def entity_of(name: str) -> Entity | None:
    """Of whom the node is; None if of nobody we know."""
    parts = []
    for part in name.split(","):
        kind, given, quoted = part.partition("=")
        if kind not in {USER, CLIENT, ADDRESS}:
            return None
        parts.append((kind, unquote(quoted) if given else None))
    return tuple(parts)


def _is(session: Session, path: str, wanted: QuotaValues) -> bool:
    node = session.read(path)
    return ({} if node is None else _values(path, node.data)) == wanted


def _values(path: str, data: bytes) -> QuotaValues:
    config = nodes.decode(path, data, ConfigNode).config
    try:
        values = {key: float(text) for key, text in config.items()}
    except ValueError:
        raise NodeUnreadable(f"ZooKeeper node {path} has what is no number") from None
    if not all(math.isfinite(each) and each > 0 for each in values.values()):
        raise NodeUnreadable(f"ZooKeeper node {path} has a quota that is none")
    return values
