"""What a producer asks the cluster: who leads its partitions, and for an id to number them under.

Whoever has least to answer is asked. While nobody can be, brokers are connected to one after the
other, without waiting for one that does not answer.
"""

from collections.abc import Callable

from client.channel import Channel
from client.delivery import TopicPartition
from client.errors import ClientError, Unsupported
from client.identity import Identity, identity_of, to_be_numbered
from client.links import Links
from client.metadata import metadata_of
from client.patience import NEVER, Pauses
from client.routes import PartitionRoutes
from wire.messages import init_producer_id, metadata
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

Learned = Callable[[dict[TopicPartition, ClientError], float], None]
Identified = Callable[[Identity | ClientError, float], None]


class Inquiries:
    """One producer's questions, and when to ask them."""

    def __init__(
        self,
        links: Links,
        routes: PartitionRoutes,
        clock: Callable[[], float],
        seconds: float,
        *,
        learned: Learned,
        identified: Identified,
    ) -> None:
        """An answer is waited for so many seconds. `learned` is told what is still missing."""
        self._links = links
        self._routes = routes
        self._clock = clock
        self._seconds = seconds
        self._learned = learned
        self._identified = identified
        self._pauses = Pauses()
        self._connect_at = 0.0
        self._identity_at = NEVER
        self._identity_asked = False

    def want_identity(self) -> None:
        if self._identity_at == NEVER and not self._identity_asked:
            self._identity_at = 0.0

    def work(self, now: float) -> None:
        """Asks what is to be asked now, if anybody can be."""
        if self._routes.ask_at() <= now and (asked := self._anybody(now)):
            self._ask_leaders(asked, now)
        if self._identity_at <= now and (asked := self._anybody(now)):
            self._ask_identity(asked, now)

    def next_time(self) -> float:
        """When there is something to ask; `NEVER` if nothing is missing."""
        return max(min(self._routes.ask_at(), self._identity_at), self._connect_at)

    def _anybody(self, now: float) -> Channel | None:
        channels = self._links.channels()
        if channels:
            return min(channels, key=lambda channel: channel.under_way)
        if self._connect_at <= now:
            self._connect_at = now + self._pauses.next()
            self._links.channel(self._routes.next_broker(), now)
        return None

    def _ask_leaders(self, asked: Channel, now: float) -> None:
        wanted = tuple(MetadataRequestTopic(name=name) for name in self._routes.ask())
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        deadline = now + self._seconds
        asked.ask(metadata.API, request, self._leaders_answered, deadline=deadline)

    def _leaders_answered(self, answer: MetadataResponse | ClientError) -> None:
        now = self._clock()
        if isinstance(answer, ClientError):
            self._routes.failed(now)
        else:
            self._pauses.reset()
            self._learned(self._routes.learn(metadata_of(answer, self._links.who), now), now)

    def _ask_identity(self, asked: Channel, now: float) -> None:
        deadline = now + self._seconds
        self._identity_at, self._identity_asked = NEVER, True
        api, request = init_producer_id.API, InitProducerIdRequest()
        try:
            asked.ask(api, request, self._identity_answered, deadline=deadline)
        except Unsupported as error:
            self._identity_answered(error)

    def _identity_answered(self, answer: InitProducerIdResponse | ClientError) -> None:
        now = self._clock()
        self._identity_asked = False
        try:
            if isinstance(answer, ClientError):
                raise answer
            identity = identity_of(answer, to_be_numbered(self._links.who))
        except ClientError as error:
            self._identity_at = now + self._pauses.next()
            self._identified(error, now)
        else:
            self._identified(identity, now)
