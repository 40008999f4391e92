"""A producer's requests for partition leaders and for a producer id.

They go to the broker with the fewest requests in flight. While there is no connection, one broker
after the other is tried, without waiting for any that does not answer.
"""

from collections.abc import Callable

from client.connection.channel import Channel
from client.connection.channel_pool import ChannelPool
from client.connection.metadata import metadata_of
from client.errors import ClientError, Unsupported
from client.patience import NEVER, Pauses
from client.producing.delivery import TopicPartition
from client.producing.identity import Identity, identity_of, to_be_numbered
from client.producing.leader_cache import LeaderCache
from wire.messages import init_producer_id, metadata
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

Learned = Callable[[dict[TopicPartition, ClientError], float], None]
Identified = Callable[[Identity | ClientError, float], None]


class ClusterQueries:
    """Sends one producer's requests when they are due."""

    def __init__(
        self,
        pool: ChannelPool,
        leaders: LeaderCache,
        clock: Callable[[], float],
        seconds: float,
        *,
        learned: Learned,
        identified: Identified,
    ) -> None:
        """Requests time out after `seconds`. `learned` is called with the partitions that still
        have no leader, `identified` with the identity or an error."""
        self._pool = pool
        self._leaders = leaders
        self._clock = clock
        self._seconds = seconds
        self._learned = learned
        self._identified = identified
        self._pauses = Pauses()
        self._connect_at = 0.0
        self._identity_at = NEVER
        self._identity_requested = False

    def want_identity(self) -> None:
        if self._identity_at == NEVER and not self._identity_requested:
            self._identity_at = 0.0

    def work(self, now: float) -> None:
        """Sends the requests that are due, if there is a channel."""
        if self._leaders.ask_at() <= now and (channel := self._free_channel(now)):
            self._ask_leaders(channel, now)
        if self._identity_at <= now and (channel := self._free_channel(now)):
            self._ask_identity(channel, now)

    def next_time(self) -> float:
        """Returns the time when the next request is due; `NEVER` if nothing is missing."""
        return max(min(self._leaders.ask_at(), self._identity_at), self._connect_at)

    def _free_channel(self, now: float) -> Channel | None:
        channels = self._pool.channels()
        if channels:
            return min(channels, key=lambda channel: channel.under_way)
        if self._connect_at <= now:
            self._connect_at = now + self._pauses.next()
            self._pool.channel(self._leaders.next_broker(), now)
        return None

    def _ask_leaders(self, channel: Channel, now: float) -> None:
        topics = tuple(MetadataRequestTopic(name=name) for name in self._leaders.ask())
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        deadline = now + self._seconds
        channel.ask(metadata.API, request, self._leaders_answered, deadline=deadline)

    def _leaders_answered(self, response: MetadataResponse | ClientError) -> None:
        now = self._clock()
        if isinstance(response, ClientError):
            self._leaders.failed(now)
        else:
            self._pauses.reset()
            self._learned(self._leaders.learn(metadata_of(response, self._pool.who), now), now)

    def _ask_identity(self, channel: Channel, now: float) -> None:
        deadline = now + self._seconds
        self._identity_at, self._identity_requested = NEVER, True
        api, request = init_producer_id.API, InitProducerIdRequest()
        try:
            channel.ask(api, request, self._identity_answered, deadline=deadline)
        except Unsupported as error:
            self._identity_answered(error)

    def _identity_answered(self, response: InitProducerIdResponse | ClientError) -> None:
        now = self._clock()
        self._identity_requested = False
        try:
            if isinstance(response, ClientError):
                raise response
            identity = identity_of(response, to_be_numbered(self._pool.who))
        except ClientError as error:
            self._identity_at = now + self._pauses.next()
            self._identified(error, now)
        else:
            self._identified(identity, now)
