"""A topic of another cluster's schemas, which a mirror copies to this one, read as it grows.

What is there when the registry starts is read before it serves. A topic that is not there, or not
fit to hold schemas, is looked for again and again, and holds nothing up.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from registry.config import MirroredSchemas, RegistryConfig
from registry.contents import RegistryContents
from registry.errors import RegistryFailure
from registry.log.followed import FollowedTopic, found_topic
from registry.log.following import ReadBatch

_LOOK_AGAIN_SECONDS: Final = 5.0
ABSENT: Final = -1

log = logging.getLogger(__name__)


class MirroredTopic:
    """One of them. Belongs to the event loop. `bring` is handed what was read, with the prefix of
    its subjects; `on_end` is told why there will be no more."""

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
        self._looking: asyncio.Task[None] | None = None

    @property
    def offset(self) -> int:
        """The next to be read, or `ABSENT`."""
        return ABSENT if self._followed is None else self._followed.reading.offset

    async def start(self) -> None:
        """Returns when the topic is read to its end, or is not there. Raises RegistryFailure."""
        try:
            followed = await self._follow()
        except RegistryFailure as failure:
            log.warning("another cluster's schemas are not served yet why=%r", str(failure))
            self._looking = asyncio.ensure_future(self._look_again())
        else:
            await followed.read_to_end()

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._followed is not None:
            await self._followed.stop()

    async def _look_again(self) -> None:
        while self._followed is None:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            try:
                await self._follow()
            except RegistryFailure as failure:
                log.debug("topic not there topic=%s why=%r", self.name, str(failure))

    async def _follow(self) -> FollowedTopic:
        topic = await found_topic(self._config, self.name, create=False)
        followed = FollowedTopic(
            self._config, topic, self._contents, self._on_end, mirrored=self._prefix
        )
        followed.reading.watch(lambda stretch: self._bring(self._prefix, stretch))
        self._followed = followed
        followed.start()
        log.info("another cluster's schemas are served topic=%s", self.name)
        return followed
