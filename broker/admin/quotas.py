"""Reads and changes quotas on behalf of clients.

Changes are written to ZooKeeper, one transaction for each entity, in a worker thread; a client is
answered when this broker has applied them. Other brokers do within a second.
"""

import asyncio
import logging
import math
from collections.abc import Mapping

from broker.connections.quotas import OF_ADDRESSES, Quota
from broker.errors import ApiError, ErrorCode
from cluster.errors import ClusterError, Unavailable
from cluster.records import quotas
from cluster.records.quotas import ADDRESS, CLIENT, USER, Entity, QuotaSnapshot, QuotasView
from cluster.session.session import Session

Changes = Mapping[str, float | None]  # by the quota's name; None: remove it

_LONGEST_NAME = 200
_KINDS = frozenset({USER, CLIENT, ADDRESS})

log = logging.getLogger(__name__)


class QuotaAdmin:
    def __init__(self, session: Session, view: QuotasView) -> None:
        self._session = session
        self._view = view

    @property
    def quotas(self) -> QuotaSnapshot:
        return self._view.quotas

    async def alter(self, entity: Entity, changes: Changes) -> None:
        """Changes quotas. Raises ApiError."""
        await asyncio.to_thread(self._alter, entity, changes)

    def _alter(self, entity: Entity, changes: Changes) -> None:
        def changed(before: Mapping[str, float]) -> Mapping[str, float]:
            new_quotas = {key: limit for key, limit in before.items() if key not in changes}
            return new_quotas | {key: limit for key, limit in changes.items() if limit is not None}

        try:
            quotas.alter(self._session, entity, changed)
            self._view.refresh()
        except Unavailable as error:
            raise ApiError(ErrorCode.request_timed_out, str(error)) from None
        except ClusterError as error:
            raise ApiError(ErrorCode.policy_violation, str(error)) from None
        log.info("quotas altered entity=%r quotas=%s", quotas.node_name(entity), dict(changes))


def checked_entity(parts: list[tuple[str, str | None]]) -> Entity:
    """Returns the entity in canonical order. Raises ApiError unless it can have quotas."""
    kinds = [kind for kind, _ in parts]
    if unknown_kind := next((kind for kind in kinds if kind not in _KINDS), None):
        raise _invalid(f"Unhandled client quota entity type: {unknown_kind:.50}")
    if not kinds or len(set(kinds)) < len(kinds):
        raise _invalid("an entity must have one part, or two of different types")
    if ADDRESS in kinds and len(kinds) > 1:
        raise _invalid("an ip entity cannot be combined with another")
    for _, name in parts:
        if name is not None and not (name and name.isprintable() and len(name) <= _LONGEST_NAME):
            raise _invalid(
                f"an entity name must have only printable characters, at most {_LONGEST_NAME}"
            )
    return tuple(sorted(parts, key=lambda part: part[0]))


def check_changes(entity: Entity, changes: Changes) -> None:
    """Checks new quotas for an entity. Raises ApiError."""
    is_address = entity[0][0] == ADDRESS
    quota_names = {str(quota) for quota in Quota if (quota in OF_ADDRESSES) == is_address}
    for key, value in changes.items():
        if key not in quota_names:
            raise _invalid(f"{key:.50} is not one of {', '.join(sorted(quota_names))}")
        if value is not None and not (math.isfinite(value) and value > 0):
            raise _invalid(f"{key} must be positive")


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, why)
