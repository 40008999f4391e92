"""A registry between HTTP and the topic: the readers' contents, and the routing of writes.

    open and check the topic → read it to its end → mirrored topics → (listen)
    → stand for election → (answer requests)

All state is in memory; the topic at the brokers is the only storage.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, TypeVar

from client.connection.addresses import Address
from client.connection.brokers import Brokers
from client.producing.producer import take_identity
from cluster.errors import ClusterError
from cluster.session.session import Session
from registry.config import RegistryConfig
from registry.errors import RegistryFailure, no_writer, not_permitted
from registry.log.followed_topic import FollowedTopic, found_topic
from registry.log.forwarding import ForwardedRequest, Passed
from registry.log.leadership import Alone, Elected, Leadership
from registry.log.mirrored_topic import MirroredTopic
from registry.log.topic import CLIENT_ID, SchemasTopic
from registry.log.topic_follower import ReadBatch
from registry.log.topic_view import TopicView
from registry.log.write_router import WriteRouter
from registry.log.writer import TopicWriter
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Decision

A = TypeVar("A")
T = TypeVar("T")

_CONNECT_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class Registry:
    """The registry. Belongs to the event loop. `gone` is set when it cannot continue; `failure`
    then has the reason."""

    def __init__(self, config: RegistryConfig, contents: RegistryContents) -> None:
        self.config = config
        self.contents = contents  # the readers' view; changes between two awaits only
        self.gone = asyncio.Event()
        self.failure = ""
        self._loop = asyncio.get_running_loop()
        self._ends = AsyncExitStack()
        self._topic: SchemasTopic | None = None
        self._session: Session | None = None
        self._reading: TopicView | None = None
        self._mirrored: list[MirroredTopic] = []
        self._writer: TopicWriter | None = None
        self._writing: WriteRouter | None = None

    # Starting and stopping

    async def start(self) -> None:
        """Opens the topic and reads it to its end; does the same for the mirrored topics that
        exist.

        Raises RegistryFailure.
        """
        config = self.config
        topic = self._topic = await found_topic(config, config.topic, create=not config.read_only)
        followed_topic = FollowedTopic(config, topic, self.contents, self._fail)
        self._reading = followed_topic.reading
        self._ends.push_async_callback(followed_topic.stop)
        followed_topic.start()
        await followed_topic.read_to_end()
        for schemas in config.mirrored:
            mirrored_topic = MirroredTopic(
                config, schemas, self.contents, bring=self._bring, on_end=self._fail
            )
            self._ends.push_async_callback(mirrored_topic.stop)
            self._mirrored.append(mirrored_topic)
            await mirrored_topic.start()
        if config.zookeeper and not config.read_only:
            self._session = await self._connect()

    async def run_for_writer(self, port: int) -> None:
        """Stands for election as writer. `port` is the HTTP port to which other registries forward
        writes."""
        config = self.config
        if config.read_only or self._topic is None or self._reading is None:
            return
        address = str(
            Address(config.advertised_host or config.host, config.advertised_port or port)
        )
        leadership = await self._leadership(self._topic, address)
        writer = self._writer = TopicWriter(
            config.bootstrap,
            config.topic,
            leadership,
            self._reading,
            capacity=config.limits.waiting_writes,
            publish_seconds=config.patience.publish,
            sign_of_life_seconds=config.sign_of_life_seconds,
            on_intruder=self._fail,
        )
        write_router = self._writing = WriteRouter(
            writer,
            self._reading,
            config.patience,
            connections=config.limits.forwarding_connections,
            address=address,
            alone=self._session is None,
            access=config.access_to_others,
        )
        self._ends.callback(write_router.close)
        self._ends.push_async_callback(asyncio.to_thread, leadership.close)
        self._ends.push_async_callback(asyncio.to_thread, writer.stop)
        leadership.start(lambda holder: self._tell(write_router.note_holder, holder))
        writer.start()

    async def stop(self) -> None:
        """Finishes the queued writes, then resigns as writer."""
        await self._ends.aclose()

    # For HTTP

    @property
    def offset(self) -> int:
        """The next offset to read, sent as OFFSET in the answer to a forwarded request."""
        return 0 if self._reading is None else self._reading.offset

    @property
    def mirrored_offsets(self) -> dict[str, int]:
        """The next offset to read in each mirrored topic; -1 for a topic that does not exist."""
        return {topic.name: topic.offset for topic in self._mirrored}

    @property
    def is_writer(self) -> bool:
        """Whether this registry currently decides writes."""
        return self._writer is not None and self._writer.is_open

    @property
    def writer(self) -> str | None:
        """The current writer as `host:port`; None if it is unknown."""
        return None if self._writing is None else self._writing.holder

    @property
    def waiting_writes(self) -> int:
        return 0 if self._writer is None else self._writer.waiting

    async def write(
        self, decide: Callable[[RegistryContents], Decision[T]], request: ForwardedRequest
    ) -> T | Passed:
        """Has the write decided here, or by the writer in another registry, and returns the answer.

        Raises ErrorAnswer: what `decide` raised, or that the write failed (50001), timed out
        (50002), could not be forwarded (50003), that there is no writer (50004), that too many
        writes wait, or that this registry is read-only. Any other exception comes from `decide`.
        """
        if self.config.read_only:
            raise not_permitted("This registry is read-only")
        if self._writing is None:
            raise no_writer()
        return await self._writing.write(decide, request)

    # Starting

    async def _connect(self) -> Session:
        config = self.config
        try:
            session = await asyncio.to_thread(
                Session.connect,
                config.zookeeper,
                secret=config.zookeeper_secret or None,
                security=config.zookeeper_security,
                timeout_s=config.zookeeper_session_seconds,
                connect_timeout_s=min(_CONNECT_SECONDS, config.patience.start),
            )
        except ClusterError as error:
            raise RegistryFailure(str(error)) from None
        self._ends.push_async_callback(asyncio.to_thread, session.close)
        return session

    async def _leadership(self, topic: SchemasTopic, address: str) -> Leadership:
        if self._session is None:
            return Alone(address, self._new_producer_id)
        candidate_leadership = Elected(
            self._session,
            topic=topic.name,
            address=address,
            cluster_id=topic.cluster_id,
            new_producer_id=self._new_producer_id,
            on_double=lambda: self._tell(
                self._fail,
                f"another registry of {topic.name} claims the address {address} too: give each "
                "its own `advertised_host` or `advertised_port`",
            ),
        )
        try:
            await asyncio.to_thread(candidate_leadership.check)
        except ClusterError as error:
            raise RegistryFailure(str(error)) from None
        return candidate_leadership

    # Callbacks

    def _new_producer_id(self) -> int:
        seconds = self.config.patience.publish
        with Brokers(
            self.config.bootstrap, client_id=CLIENT_ID, patience_seconds=seconds
        ) as brokers:
            return take_identity(brokers, self.config.topic).producer_id

    def _tell(self, what: Callable[[A], None], argument: A) -> None:
        """Call `what` on the event loop."""
        self._loop.call_soon_threadsafe(what, argument)

    def _bring(self, prefix: str, batch: ReadBatch) -> None:
        if self._writer is not None:
            self._writer.bring(prefix, batch)

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.gone.set()
