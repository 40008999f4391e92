"""The brokers of a cluster, as a client knows them: who they are, who leads what, connections.

What is known is the last metadata; whoever learns from an error that it is out of date asks again.
One connection to each broker is kept and shared, opened when it is first needed. One thread at a
time.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from client.addresses import Address
from client.bootstrap import Bootstrap
from client.connection import REQUEST_SECONDS, BrokerConnection
from client.conversation import Memory, fresh_memory
from client.errors import ClientError, ErrorCode, NotReachable, Refused, UnknownTopic
from client.metadata import ClusterMetadata, TopicMetadata, metadata_of
from client.patience import Patience
from ground.chance import shuffled
from wire.acls import Operation
from wire.codec import Api
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
    ) -> None:
        """Connects to one of them; raises the last error if none can be reached."""
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
        """Something is to be closed when this is."""
        self._closed_with.append(close)

    @property
    def bootstrap(self) -> Bootstrap:
        """Where some broker may be reached, by what is known now."""
        known = [broker.address for broker in self.known.brokers.values()]
        addresses = dict.fromkeys([*known, *self._bootstrap.addresses])
        return replace(self._bootstrap, addresses=tuple(addresses))

    @property
    def who(self) -> str:
        """Who one is to them, in words."""
        return self._bootstrap.access.who

    def patience(self) -> Patience:
        return Patience(self.patience_seconds)

    def persist(self, attempt: Callable[[], Result]) -> Result:
        """The attempt's result, tried again while its errors are passing ones."""
        patience = self.patience()
        while True:
            try:
                return attempt()
            except ClientError as error:
                patience.wait(error)

    def refresh(self, topics: Collection[str] | None, *, create: bool = False) -> ClusterMetadata:
        """Asks any broker for the cluster's brokers and for these topics, or all for None; to
        `create` them the controller, as far as it is known: of Penstock's brokers no other does."""
        wanted = (
            None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        )
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        asked = self._controller() if create else self.any_broker()
        answer = metadata_of(asked.call(metadata_api.API, request), self.who)
        # What is known of other topics stays: several readers and writers share this.
        others = {} if topics is None else self.known.topics
        self.known = replace(answer, topics={**others, **answer.topics})
        return self.known

    def as_seen_by(self, broker_id: int) -> ClusterMetadata:
        """The cluster with all its topics, as this broker has it now: they learn of changes one
        after the other."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return metadata_of(self.broker(broker_id).call(metadata_api.API, request), self.who)

    def topic(self, name: str, *to: Operation, create: bool = False) -> TopicMetadata:
        """The topic, once all its partitions have leaders; `create` asks the broker to make it.

        A topic that nobody asked to create and that does not exist is an error at once. `to` is
        what is wanted with it, for whoever reads that it is not allowed.
        """

        def attempt() -> TopicMetadata:
            known = self.refresh([name], create=create)
            if not create and not known.has(name):
                raise UnknownTopic(f"no topic {name}")
            found = known.topic(name, *to, creates=create)
            for partition in found.partitions:
                found.partition(partition.index)
            return found

        return self.persist(attempt)

    def any_broker(self) -> BrokerConnection:
        """The shared connection to whichever broker: an open one, or a new one to a broker that is
        known or to a bootstrap address."""
        for connection in list(self._connections.values()):
            if not connection.closed:
                return connection
        known = [broker.address for broker in self.known.brokers.values()]
        failure: ClientError = NotReachable("no broker to connect to")
        for address in [*shuffled(known), *shuffled(self._bootstrap.addresses)]:
            try:
                return self._shared(address)
            except ClientError as error:
                failure = error
        raise failure

    def call_any(self, api: Api[Request, Response], request: Request) -> Response:
        """Asks whichever broker answers."""
        return self.persist(lambda: self.any_broker().call(api, request))

    def call_controller(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Response:
        """Asks the controller, once: what it does may not be safe to ask for twice."""

        def controller() -> BrokerConnection:
            known = self.refresh([])
            if known.controller not in known.brokers:
                raise Refused("the cluster", ErrorCode.not_controller, "no broker is controller")
            return self.broker(known.controller)

        return self.persist(controller).call(api, request, within=within)

    def broker(self, broker_id: int) -> BrokerConnection:
        """The connection to that broker that all share, for requests that are answered at once."""
        return self._shared(self._address(broker_id))

    def connect(self, broker_id: int, *, memory: Memory = fresh_memory) -> BrokerConnection:
        """A connection of the caller's own, on which a request may wait without others waiting."""
        return BrokerConnection(
            self._address(broker_id), self.client_id, self._bootstrap.access, memory=memory
        )

    def leaders(
        self, topic: str, partitions: Iterable[int], *to: Operation
    ) -> dict[int, list[int]]:
        """The partitions by the broker that leads them. `to` is as in `topic`."""
        found: dict[int, list[int]] = {}
        for partition in partitions:
            leader = self.known.topic(topic, *to).partition(partition).leader
            found.setdefault(leader, []).append(partition)
        return found

    def _controller(self) -> BrokerConnection:
        """Or whichever broker, where that one cannot be reached."""
        if self.known.controller in self.known.brokers:
            with suppress(ClientError):
                return self.broker(self.known.controller)
        return self.any_broker()

    def _address(self, broker_id: int) -> Address:
        broker = self.known.brokers.get(broker_id)
        if broker is None:
            raise NotReachable(f"broker {broker_id} is not among the live ones")
        return broker.address

    def _shared(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = BrokerConnection(address, self.client_id, self._bootstrap.access)
            self._connections[address] = connection
        return connection
