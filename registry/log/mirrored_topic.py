"""Follows a topic of another cluster's schemas that a mirror copies to this cluster.

What exists at start is read before the registry serves. A topic that is missing or unfit to hold
schemas is looked up again periodically, and delays nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from registry.config import MirroredSchemas, RegistryConfig
from registry.errors import RegistryFailure
from registry.log.followed_topic import FollowedTopic, found_topic
from registry.log.topic_follower import ReadBatch
from registry.schemas_topic.contents import RegistryContents

_RETRY_SECONDS: Final = 5.0
ABSENT: Final = -1

log = logging.getLogger(__name__)


class MirroredTopic:
    """Follows a copied topic of schemas. Belongs to the event loop. `bring` gets the records and
    the prefix of their subjects; `on_end` gets the reason when the topic can no longer be
    followed."""

    def __init__(
        self,
        config: RegistryConfig,
        schemas: MirroredSchemas,
        contents: RegistryContents,
        *,
        bring: Callable[[str, ReadBatch], None],
        on_end: Callable[[str], None],
    ) -> None:
        self.name: Final = schemas.topic
        self._config = config
        self._prefix = schemas.subjects
        self._contents = contents
        self._bring = bring
        self._on_end = on_end
        self._followed: FollowedTopic | None = None
        self._lookup: asyncio.Task[None] | None = None

    @property
    def offset(self) -> int:
        """The next offset to read, or `ABSENT`."""
        return ABSENT if self._followed is None else self._followed.reading.offset

    async def start(self) -> None:
        """Waits until the topic is read to its end, or does not exist. Raises RegistryFailure."""
        try:
            followed_topic = await self._follow()
        except RegistryFailure as failure:
            log.warning("mirrored schemas are not available yet why=%r", str(failure))
            self._lookup = asyncio.ensure_future(self._retry_lookup())
        else:
            await followed_topic.read_to_end()

    async def stop(self) -> None:
        if self._lookup is not None:
            self._lookup.cancel()
        if self._followed is not None:
            await self._followed.stop()

    async def _retry_lookup(self) -> None:
        while self._followed is None:
            await asyncio.sleep(_RETRY_SECONDS)
            try:
                await self._follow()
            except RegistryFailure as failure:
                log.debug("topic not available topic=%s why=%r", self.name, str(failure))

    async def _follow(self) -> FollowedTopic:
        topic = await found_topic(self._config, self.name, create=False)
        followed_topic = FollowedTopic(
            self._config, topic, self._contents, self._on_end, mirrored=self._prefix
        )
        followed_topic.reading.watch(lambda batch: self._bring(self._prefix, batch))
        self._followed = followed_topic
        followed_topic.start()
        log.info("mirrored schemas are available topic=%s", self.name)
        return followed_topic
