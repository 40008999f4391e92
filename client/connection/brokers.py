"""A cluster's brokers: metadata, partition leaders, connections.

The latest metadata is kept; a caller that learns from an error that it is outdated refreshes it.
One connection per broker is shared, and opened when first needed. Not thread-safe.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.connection import CONNECT_SECONDS, REQUEST_SECONDS, BrokerConnection
from client.connection.conversation import Memory, fresh_memory
from client.connection.metadata import ClusterMetadata, TopicMetadata, metadata_of
from client.errors import ClientError, ErrorCode, NotReachable, Refused, UnknownTopic
from client.patience import Patience
from ground.randomness import shuffled
from wire.acls import Operation
from wire.framing.codec import Api
from wire.messages import metadata as metadata_api
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class Brokers:
    """A cluster, reached through the addresses of some of its brokers."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        client_id: str = "penstock",
        patience_seconds: float = REQUEST_SECONDS,
        contact_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """Connects to one broker; raises the last error if none can be reached."""
        self._contact_seconds = contact_seconds
        self._bootstrap = bootstrap
        self.patience_seconds = patience_seconds
        self.client_id = client_id
        self.known = ClusterMetadata()
        self._connections: dict[Address, BrokerConnection] = {}
        self._closed_with: list[Callable[[], None]] = []
        self.any_broker()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for close in self._closed_with:
            close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def closes(self, close: Callable[[], None]) -> None:
        """Registers a callback that `close` calls."""
        self._closed_with.append(close)

    @property
    def bootstrap(self) -> Bootstrap:
        """Addresses of the brokers known now, followed by the configured ones."""
        known_addresses = [broker.address for broker in self.known.brokers.values()]
        addresses = dict.fromkeys([*known_addresses, *self._bootstrap.addresses])
        return replace(self._bootstrap, addresses=tuple(addresses))

    @property
    def who(self) -> str:
        """A description of the client as the brokers see it."""
        return self._bootstrap.access.who

    def patience(self) -> Patience:
        return Patience(self.patience_seconds)

    def persist(self, attempt: Callable[[], Result]) -> Result:
        """Calls `attempt` until it succeeds; retries retriable errors while patience lasts."""
        patience = self.patience()
        while True:
            try:
                return attempt()
            except ClientError as error:
                patience.wait(error)

    def refresh(self, topics: Collection[str] | None, *, create: bool = False) -> ClusterMetadata:
        """Requests the metadata of the brokers and these topics, or all topics for None, from any
        broker. `create` asks the controller if it is known, because in Penstock only the controller
        creates topics."""
        requested_topics = (
            None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        )
        request = MetadataRequest(topics=requested_topics, allow_auto_topic_creation=create)
        connection = self._controller() if create else self.any_broker()
        metadata = metadata_of(connection.call(metadata_api.API, request), self.who)
        # Other topics stay known: several readers and writers share this object.
        known_topics = {} if topics is None else self.known.topics
        self.known = replace(metadata, topics={**known_topics, **metadata.topics})
        return self.known

    def as_seen_by(self, broker_id: int) -> ClusterMetadata:
        """Returns this broker's current view of all topics, as brokers learn of changes one after
        another."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return metadata_of(self.broker(broker_id).call(metadata_api.API, request), self.who)

    def topic(self, name: str, *to: Operation, create: bool = False) -> TopicMetadata:
        """Returns the topic once all its partitions have leaders. `create` asks the brokers to
        create it.

        Without `create`, a topic that does not exist is an error at once. `to` is the intended
        operation, for the error message if it is not allowed.
        """

        def attempt() -> TopicMetadata:
            metadata = self.refresh([name], create=create)
            if not create and not metadata.has(name):
                raise UnknownTopic(name)
            topic = metadata.topic(name, *to, creates=create)
            for partition in topic.partitions:
                topic.partition(partition.index)
            return topic

        return self.persist(attempt)

    def existing_topics(self, names: Iterable[str], *to: Operation) -> dict[str, TopicMetadata]:
        """Returns those of the topics that exist, with one request for all. `to` is the same as in
        `topic`."""
        topics = list(names)
        if not topics:
            return {}

        def attempt() -> dict[str, TopicMetadata]:
            metadata = self.refresh(topics)
            return {name: metadata.topic(name, *to) for name in topics if metadata.has(name)}

        return self.persist(attempt)

    def any_broker(self) -> BrokerConnection:
        """Returns an open connection to any broker, or connects to a known or bootstrap address."""
        for connection in list(self._connections.values()):
            if not connection.closed:
                return connection
        known_addresses = [broker.address for broker in self.known.brokers.values()]
        failure: ClientError = NotReachable("no broker to connect to")
        for address in [*shuffled(known_addresses), *shuffled(self._bootstrap.addresses)]:
            try:
                return self._shared(address)
            except ClientError as error:
                failure = error
        raise failure

    def call_any(self, api: Api[Request, Response], request: Request) -> Response:
        """Sends the request to any broker that answers."""
        return self.persist(lambda: self.any_broker().call(api, request))

    def call_controller(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Response:
        """Sends the request to the controller, once: repeating it may not be safe."""

        def controller() -> BrokerConnection:
            metadata = self.refresh([])
            if metadata.controller not in metadata.brokers:
                raise Refused(
                    "the cluster", ErrorCode.not_controller, "no broker is the controller"
                )
            return self.broker(metadata.controller)

        return self.persist(controller).call(api, request, within=within)

    def broker(self, broker_id: int) -> BrokerConnection:
        """Returns the shared connection to this broker, for requests that are answered at once."""
        return self._shared(self._address(broker_id))

    def connect(self, broker_id: int, *, memory: Memory = fresh_memory) -> BrokerConnection:
        """Opens a connection for the caller alone, for requests that the broker may hold."""
        return self._connection(self._address(broker_id), memory)

    def leaders(
        self, topic: str, partitions: Iterable[int], *to: Operation
    ) -> dict[int, list[int]]:
        """Groups the partitions by leader. `to` is the same as in `topic`."""
        partitions_by_leader: dict[int, list[int]] = {}
        for partition in partitions:
            leader = self.known.topic(topic, *to).partition(partition).leader
            partitions_by_leader.setdefault(leader, []).append(partition)
        return partitions_by_leader

    def _controller(self) -> BrokerConnection:
        """Connects to the controller, or to any broker if the controller cannot be reached."""
        if self.known.controller in self.known.brokers:
            with suppress(ClientError):
                return self.broker(self.known.controller)
        return self.any_broker()

    def _address(self, broker_id: int) -> Address:
        broker = self.known.brokers.get(broker_id)
        if broker is None:
            raise NotReachable(f"broker {broker_id} is not alive")
        return broker.address

    def _shared(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = self._connection(address, fresh_memory)
        return connection

    def _connection(self, address: Address, memory: Memory) -> BrokerConnection:
        return BrokerConnection(
            address,
            self.client_id,
            self._bootstrap.access,
            memory=memory,
            contact_seconds=self._contact_seconds,
        )
