"""Quotas of clients at each broker, in ZooKeeper: one node per entity.

    /config/quotas/client-id=loader,user=alice   {"version":1,"config":{"consumer_byte_rate":"1e6"}}
    /config/quotas/user                          all users without a more specific one

The broker interprets the quotas (broker/connections/quotas.py).
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from cluster.errors import ClusterError, Conflict, NodeUnreadable
from cluster.layout import nodes, paths
from cluster.layout.nodes import ConfigNode
from cluster.records import removable
from cluster.session.followed_directory import Contents, FollowedDirectory
from cluster.session.session import Session

USER: Final = "user"
CLIENT: Final = "client-id"
ADDRESS: Final = "ip"

EntityPart = tuple[str, str | None]  # one of the three kinds, and a name; None: all others
Entity = tuple[EntityPart, ...]  # sorted by kind
QuotaValues = Mapping[str, float]
QuotaSnapshot = Mapping[Entity, QuotaValues]

NONE: Final[QuotaSnapshot] = MappingProxyType({})
MOST: Final = 10_000  # entities; ZooKeeper's list of them must stay far below 1 MiB

log = logging.getLogger(__name__)


def alter(session: Session, entity: Entity, change: Callable[[QuotaValues], QuotaValues]) -> None:
    """Replaces an entity's quotas with `change(quotas)`. `change` must be pure: it is called again
    if they were changed concurrently."""
    path = f"{paths.QUOTAS}/{node_name(entity)}"
    while True:
        node = removable.read(session, path)
        old_quotas = {} if node.data is None else _values(path, node.data)
        new_quotas = dict(change(old_quotas))
        if new_quotas == old_quotas:
            return
        if node.data is None and len(session.children(paths.QUOTAS) or ()) >= MOST:
            raise ClusterError(f"there are quotas for {MOST} entities, which is the limit")
        is_done = partial(_is, session, path, new_quotas)
        with contextlib.suppress(Conflict):  # changed concurrently
            if new_quotas:
                config = {key: repr(quota) for key, quota in new_quotas.items()}
                node.replace(session, nodes.encode(ConfigNode(config=config)), is_done)
            else:
                node.remove(session, is_done)
            return


class QuotasView:
    """Holds the quotas as last read; after `start`, it is kept current."""

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
        """Waits until the view includes everything that was written before this call."""
        self._directory.refresh()

    def _take(self, contents: Contents) -> None:
        quotas = {}
        for name, data in contents.items():
            entity = entity_of(name)
            if entity is None:
                continue
            try:
                quotas[entity] = _values(f"{paths.QUOTAS}/{name}", data)
            except NodeUnreadable as error:
                log.warning("quotas unreadable, not in force error=%r", str(error))
        self.quotas = MappingProxyType(quotas)
        self._on_change(self.quotas)


def node_name(entity: Entity) -> str:
    return ",".join(
        kind if name is None else f"{kind}={quote(name, safe='')}" for kind, name in entity
    )


def entity_of(name: str) -> Entity | None:
    """Returns the entity that a node belongs to; None if the entity is of an unknown kind."""
    parts = []
    for part in name.split(","):
        kind, separator, quoted_name = part.partition("=")
        if kind not in {USER, CLIENT, ADDRESS}:
            return None
        parts.append((kind, unquote(quoted_name) if separator else None))
    return tuple(parts)


def _is(session: Session, path: str, wanted: QuotaValues) -> bool:
    node = session.read(path)
    return ({} if node is None else _values(path, node.data)) == wanted


def _values(path: str, data: bytes) -> QuotaValues:
    config = nodes.decode(path, data, ConfigNode).config
    try:
        values = {key: float(text) for key, text in config.items()}
    except ValueError:
        raise NodeUnreadable(f"ZooKeeper node {path} has a value that is not a number") from None
    if not all(math.isfinite(quota) and quota > 0 for quota in values.values()):
        raise NodeUnreadable(f"ZooKeeper node {path} has a quota that is not positive and finite")
    return values
