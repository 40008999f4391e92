"""Changes broker configs on behalf of clients while brokers run.

Any broker serves such a change. A broker that changes its own configs answers once they are in
force; other brokers apply a change within a second.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from broker.admin.topics import TopicAdmin, in_thread
from broker.configs.dynamic_configs import DYNAMIC_KEYS, dynamic_key, overrides_of
from broker.configs.topic_config import ConfigChange, changed
from broker.errors import ApiError, ErrorCode
from cluster.records import configs
from cluster.records.configs import BrokerResource
from cluster.session.session import Session
from cluster.view import ClusterView

EVERY_BROKER: Final = ""  # the number in a resource name
_SEEN_SECONDS: Final = 5.0
_LAST_ID: Final = 2**31 - 1


class BrokerConfigAdmin:
    """Changes broker configs. Belongs to the event loop."""

    def __init__(self, session: Session, view: ClusterView, topics: TopicAdmin) -> None:
        self._session = session
        self._view = view
        self._topics = topics

    async def set_configs(
        self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        new_configs = {key: dynamic_key(key).canonical(text) for key, text in overrides.items()}
        await self._alter(name, lambda _: new_configs, validate_only)

    async def change_configs(
        self, name: str, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        steps = tuple(changes)

        def change(before: Mapping[str, str]) -> Mapping[str, str]:
            new_configs = changed(before, steps, key_of=dynamic_key)
            return {
                key: DYNAMIC_KEYS[key].canonical(text) if key in DYNAMIC_KEYS else text
                for key, text in new_configs.items()
            }

        await self._alter(name, change, validate_only)

    async def _alter(
        self,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        validate_only: bool,
    ) -> None:
        broker_id = checked_name(name)
        snapshot = self._view.snapshot
        if broker_id is not None and broker_id not in {*snapshot.brokers, *snapshot.broker_configs}:
            raise ApiError(ErrorCode.invalid_request, f"there is no broker {broker_id}")
        if validate_only:
            change(overrides_of(snapshot, broker_id))
            return
        resource = BrokerResource(broker_id)
        new_configs = await in_thread(configs.alter, self._session, resource, change)
        with suppress(TimeoutError):  # it is written, and may have been overwritten since
            async with asyncio.timeout(_SEEN_SECONDS):
                await self._topics.seen(lambda map_: overrides_of(map_, broker_id) == new_configs)


def checked_name(name: str) -> int | None:
    """Returns the id of the named broker; None stands for all brokers. Raises ApiError."""
    if name == EVERY_BROKER:
        return None
    if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= _LAST_ID):
        raise ApiError(ErrorCode.invalid_request, f"{name[:20]!r} is not a broker id")
    return int(name)
