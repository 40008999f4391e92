"""Opens a schemas topic and reads it into the contents from its beginning.

Belongs to the event loop; a thread does the reading (`topic_follower.py`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from client.errors import ClientError
from ground.outage import Outage
from registry.config import RegistryConfig
from registry.errors import RegistryFailure
from registry.log.topic import SchemasTopic, ready_topic
from registry.log.topic_follower import TopicFollower
from registry.log.topic_view import TopicView
from registry.schemas_topic.contents import RegistryContents

log = logging.getLogger(__name__)


async def found_topic(config: RegistryConfig, name: str, *, create: bool) -> SchemasTopic:
    """Waits until the brokers are reachable, and returns the topic. Raises RegistryFailure."""
    outage = Outage(log, f"reaching {config.bootstrap}")
    while True:
        try:
            topic = await asyncio.to_thread(
                ready_topic,
                config.bootstrap,
                name,
                replication_factor=config.replication_factor,
                create=create,
            )
        except ClientError as error:
            pause = outage.failed(error)
            if not error.retriable or outage.seconds > config.patience.start:
                raise RegistryFailure(str(error)) from None
            await asyncio.sleep(pause)
        else:
            outage.over()
            return topic


class FollowedTopic:
    """A topic that is followed. `on_end` gets the reason when it can no longer be followed."""

    def __init__(
        self,
        config: RegistryConfig,
        topic: SchemasTopic,
        contents: RegistryContents,
        on_end: Callable[[str], None],
        mirrored: str = "",
    ) -> None:
        """`mirrored`: the subjects' prefix, if they belong to another cluster."""
        self.topic: Final = topic
        self.reading: Final = TopicView(contents, topic.start, mirrored)
        self._patience = config.patience
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._follower = TopicFollower(
            config.bootstrap, topic, take=self.reading.take, on_end=self._report_end
        )

    def start(self) -> None:
        self._follower.start()

    async def stop(self) -> None:
        self.reading.close()
        await asyncio.to_thread(self._follower.stop)

    async def read_to_end(self) -> None:
        """Waits until the topic is read up to the end it had at the start, or until there is no
        more progress.

        Raises RegistryFailure.
        """
        name, end, view = self.topic.name, self.topic.end, self.reading
        start_time = self._loop.time()
        reach_task = asyncio.ensure_future(view.reach(end))
        try:
            while not reach_task.done():
                offset_before = view.offset
                await asyncio.wait(
                    (reach_task, self._ended),
                    timeout=self._patience.start,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._ended.done():
                    raise RegistryFailure(self._ended.result())
                if view.offset == offset_before < end:
                    trouble = self._follower.trouble
                    raise RegistryFailure(
                        f"topic {name} was read up to offset {offset_before} of {end}, and no "
                        f"further record arrived for {self._patience.start:g} s"
                        f"{trouble and f': {trouble}'}"
                    )
        finally:
            reach_task.cancel()
        seconds = self._loop.time() - start_time
        log.info("topic read topic=%s offset=%d seconds=%.2f", name, end, seconds)

    def _report_end(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._note_end, reason)

    def _note_end(self, reason: str) -> None:
        self._ended.set_result(reason)
        self._on_end(reason)
