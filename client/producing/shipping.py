"""Assembles streams' batches into Produce requests, and hands the responses back to the streams.

A request has at most one batch of each partition, and at most `request_bytes`, but at least one
batch. At most five requests to a broker are in flight, and the next is assembled when the one
before is with the operating system: while a broker is busy, batches gather for larger requests.

A partition that must wait (for its leader, for its broker, for a pause to end) delays no other.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

import msgspec

from client.connection.addresses import Address
from client.connection.bootstrap import Bootstrap
from client.connection.channel import Channel
from client.connection.channel_pool import ChannelPool
from client.errors import ClientError, NotKafka, Unsupported
from client.patience import NEVER, Pauses
from client.producing.cluster_queries import ClusterQueries
from client.producing.delivery import Acks, Batch, Event, Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.leader_cache import LeaderCache
from client.producing.produce_errors import MOVED
from client.producing.stream import Numbering, Stream
from ground.randomness import shuffled
from ground.varints import unsigned_varint
from wire.messages import produce
from wire.messages.produce import PartitionProduceResponse, ProduceResponse
from wire.produce import FLEXIBLE
from wire.record_batches.batch import Buffer

REQUESTS: Final = 5
_BROKERS_SHARE: Final = 0.8  # the fraction of the request timeout that the broker may use
_LONGEST_SWEEP: Final = 1.0
_NO_TRANSACTION: Final = b"\xff\xff"
_NO_TRANSACTION_FLEXIBLE: Final = b"\x00"
_NO_TAGS: Final = b"\x00"
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

Journal = Callable[[Sequence[Stamped]], None]
Shipment = Sequence[tuple[Stream, Stamped]]


class ShippingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on memory, request size and time."""

    memory_bytes: int = 32 * 1024 * 1024
    request_bytes: int = 4 * 1024 * 1024
    request_seconds: float = 30.0
    delivery_seconds: float = NEVER


class Shipping:
    """All partitions of one producer. Not thread-safe."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        client_id: str,
        acks: Acks,
        identity: Identity | None,
        limits: ShippingLimits,
        journal: Journal | None,
        happened: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self.pool = ChannelPool(client_id, bootstrap.access, failed=self._connection_failed)
        self._acks = acks
        self._identity = identity
        self._is_lent = identity is not None
        self._limits = limits
        self._journal = journal
        self._happened = happened
        self._clock = clock
        self._leaders = LeaderCache(bootstrap.addresses, Pauses(), shuffled)
        self._queries = ClusterQueries(
            self.pool,
            self._leaders,
            clock,
            limits.request_seconds,
            learned=self._leaders_learned,
            identified=self._identified,
        )
        self._streams: dict[TopicPartition, Stream] = {}
        # Each stream with something to send is in one of these; `_ready` is a hint, checked again.
        self._ready: dict[Address, dict[TopicPartition, Stream]] = defaultdict(dict)
        self._later: dict[TopicPartition, float] = {}
        self._leaderless: set[TopicPartition] = set()
        self._nameless: set[TopicPartition] = set()
        self._sweep_at = NEVER if limits.delivery_seconds == NEVER else 0.0

    def submit(self, batch: Batch, now: float) -> None:
        stream = self._stream(batch.target)
        stream.submit(batch, now + self._limits.delivery_seconds)
        self._place(stream, now)

    def renew(
        self,
        target: TopicPartition,
        identity: Identity | None,
        sequence: int,
        first: Sequence[Batch],
        now: float,
    ) -> None:
        stream = self._stream(target)
        stream.renew(identity, sequence, first, now + self._limits.delivery_seconds)
        self._place(stream, now)

    def halt(self, target: TopicPartition, error: ClientError, now: float) -> list[Batch]:
        """Stops a partition, and returns its batches without numbers; an `Unsettled` event returns
        the others."""
        stream = self._stream(target)
        waiting_batches, events = stream.halt(error)
        self._follow(stream, events, now)
        return waiting_batches

    def leader_epoch(self, target: TopicPartition) -> int:
        """Returns the latest known leader epoch; -1 if there was none."""
        return self._leaders.leader_epoch(target)

    def work(self, now: float) -> None:
        """Sends all requests that can be sent now."""
        for target in [target for target, ready_time in self._later.items() if ready_time <= now]:
            self._place(self._streams[target], now)
        if self._sweep_at <= now:
            self._sweep_at = now + min(_LONGEST_SWEEP, self._limits.delivery_seconds / 10)
            for stream in self._streams.values():
                self._follow(stream, stream.expire(now), now)
        self._queries.work(now)
        for address, ready in list(self._ready.items()):
            self._ship(address, ready, now)

    def next_time(self, now: float) -> float:
        """Returns the time at which work is due even without events."""
        due_times = chain(self._later.values(), (self._sweep_at, self._queries.next_time()))
        return min(*due_times, self.pool.next_time(now))

    def troubles(self) -> dict[TopicPartition, ClientError]:
        """Returns the errors that delay partitions with batches to send."""
        return {
            target: stream.trouble
            for target, stream in self._streams.items()
            if stream.trouble is not None and len(stream)
        }

    def _stream(self, target: TopicPartition) -> Stream:
        stream = self._streams.get(target)
        if stream is None:
            numbering = Numbering.LENT if self._is_lent else Numbering.OWN
            if self._acks is not Acks.ALL:
                numbering = Numbering.NONE
            lent_identity = self._identity if self._is_lent else None
            stream = self._streams[target] = Stream(target, numbering, Pauses(), lent_identity)
        return stream

    def _place(self, stream: Stream, now: float) -> None:
        """Puts the stream where it belongs now; nowhere if it must wait for answers."""
        target = stream.target
        self._later.pop(target, None)
        if stream.needs_identity and not self._identify(stream):
            self._nameless.add(target)
            return
        at = stream.ready_at(now)
        if at is None:
            return
        if at > now:
            self._later[target] = at
        elif leader := self._leaders.leader(target):
            self._ready[leader][target] = stream
        else:
            self._leaderless.add(target)

    def _identify(self, stream: Stream) -> bool:
        if self._identity is None or not stream.takes(self._identity):
            self._identity = None
            self._queries.want_identity()
            return False
        stream.identify(self._identity)
        return True

    def _follow(self, stream: Stream, events: Iterable[Event], now: float) -> None:
        """Emits a stream's events and schedules the stream again."""
        for event in events:
            self._happened(event)
        self._place(stream, now)

    def _ship(self, address: Address, ready: dict[TopicPartition, Stream], now: float) -> None:
        """Sends as much of what is ready as the leader takes."""
        while ready:
            channel = self.pool.channel(address, now)
            if channel is None or channel.failure or channel.wants_to_write:
                return
            if channel.under_way >= REQUESTS:
                return
            try:
                version = channel.version(produce.API)
            except Unsupported as error:
                for stream in [ready.popitem()[1] for _ in range(len(ready))]:
                    self._follow(stream, stream.refuse_all(error), now)
                return
            if shipment := self._gather(address, ready, now):
                self._send(channel, version, shipment, now)

    def _gather(self, leader: Address, ready: dict[TopicPartition, Stream], now: float) -> Shipment:
        """Collects the batches of one request, those of the longest waiting partitions first."""
        shipment: list[tuple[Stream, Stamped]] = []
        size = 0
        for target, stream in list(ready.items()):
            at = stream.ready_at(now)
            if at is None or at > now or self._leaders.leader(target) != leader:
                del ready[target]
                self._place(stream, now)
                continue
            batch = stream.next(now)
            size += batch.batch.size
            if shipment and size > self._limits.request_bytes:
                break
            del ready[target]
            shipment.append((stream, batch))
        return shipment

    def _send(self, channel: Channel, version: int, shipment: Shipment, now: float) -> None:
        try:
            self._write_down(shipment)
            for stream, batch in shipment:
                stream.sent(batch)
            self._put(channel, version, shipment, now)
        finally:
            for stream, _ in shipment:
                self._place(stream, now)

    def _write_down(self, shipment: Shipment) -> None:
        if self._journal is not None:
            new_batches = [batch for stream, batch in shipment if stream.is_first_sending(batch)]
            if new_batches:
                self._journal(new_batches)

    def _put(self, channel: Channel, version: int, shipment: Shipment, now: float) -> None:
        topics: dict[str, list[Stamped]] = defaultdict(list)
        for _, batch in shipment:
            topics[batch.batch.target.topic].append(batch)
        timeout_ms = int(self._limits.request_seconds * 1000 * _BROKERS_SHARE)
        body = produce_body(version, self._acks, timeout_ms, topics)
        deadline = now + self._limits.request_seconds
        if self._acks is Acks.NONE:
            on_sent = partial(self._sent_unanswered, shipment)
            channel.put_unanswered(produce.API, version, body, on_sent, deadline=deadline)
        else:
            on_answer = partial(self._answered, shipment)
            channel.put(produce.API, version, body, on_answer, deadline=deadline)

    def _sent_unanswered(self, shipment: Shipment, failure: ClientError | None) -> None:
        if failure is None:
            parts = {batch.batch.target: _SENT for _, batch in shipment}
            self._settle(shipment, parts)
        else:
            self._lose(shipment, failure)

    def _answered(self, shipment: Shipment, response: ProduceResponse | ClientError) -> None:
        if isinstance(response, ClientError):
            self._lose(shipment, response)
            return
        parts = {
            TopicPartition(topic.name, part.index): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        self._settle(shipment, parts)

    def _settle(
        self, shipment: Shipment, parts: dict[TopicPartition, PartitionProduceResponse]
    ) -> None:
        now, client_name = self._clock(), self.pool.who
        for stream, batch in shipment:
            part = parts.get(stream.target)
            if part is None:
                error = NotKafka(f"{stream.target}: the response has no result for this partition")
                self._follow(stream, stream.lost(batch, error, now), now)
                continue
            if part.error_code in MOVED:
                self._leaders.doubt(stream.target)
            self._follow(stream, stream.answered(batch, part, now, client_name), now)

    def _lose(self, shipment: Shipment, error: ClientError) -> None:
        now = self._clock()
        for stream, batch in shipment:
            self._follow(stream, stream.lost(batch, error, now), now)

    def _connection_failed(self, address: Address, error: ClientError) -> None:
        """The broker's partitions may have moved."""
        self._leaders.doubt_broker(address)
        now = self._clock()
        streams, self._ready[address] = self._ready[address], {}
        for stream in streams.values():
            stream.trouble = error
            self._place(stream, now)
        for target in self._leaderless | self._nameless:  # these may have waited for it
            self._streams[target].trouble = error

    def _leaders_learned(self, missing: dict[TopicPartition, ClientError], now: float) -> None:
        targets, self._leaderless = self._leaderless, set()
        for target in targets:
            stream = self._streams[target]
            events: list[Event] = []
            if error := missing.get(target):
                stream.trouble = error
                if not error.retriable:
                    events = stream.refuse_all(error)
            self._follow(stream, events, now)
            if target not in self._leaderless:
                self._leaders.give_up(target)

    def _identified(self, result: Identity | ClientError, now: float) -> None:
        targets, self._nameless = self._nameless, set()
        if isinstance(result, Identity):
            self._identity = result
        for target in targets:
            stream = self._streams[target]
            if isinstance(result, ClientError):
                stream.trouble = result
            self._place(stream, now)


_SENT: Final = PartitionProduceResponse(index=0)


def produce_body(
    version: int, acks: Acks, timeout_ms: int, topics: Mapping[str, Sequence[Stamped]]
) -> list[Buffer]:
    """Returns the request body as pieces: the fields around the batches, and the batches' own
    bytes. Takes one batch for each partition.

    The same bytes as from `wire.messages.produce` through `wire.framing.codec`, as tests check; but
    that copies each batch several times, and takes a request's size in memory again.
    """
    flexible = version >= FLEXIBLE
    pieces: list[Buffer] = []
    buffer = bytearray(_NO_TRANSACTION_FLEXIBLE if flexible else _NO_TRANSACTION)
    buffer += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    buffer += _count(len(topics), flexible)
    for name, batches in topics.items():
        name_bytes = name.encode()
        buffer += unsigned_varint(len(name_bytes) + 1) if flexible else _INT16.pack(len(name_bytes))
        buffer += name_bytes
        buffer += _count(len(batches), flexible)
        for batch in batches:
            buffer += _INT32.pack(batch.batch.target.partition)
            buffer += _count(batch.batch.size, flexible)
            buffer += batch.head
            pieces += [buffer, batch.body]
            buffer = bytearray(_NO_TAGS if flexible else b"")
        buffer += _NO_TAGS if flexible else b""
    pieces.append(buffer + (_NO_TAGS if flexible else b""))
    return pieces


def _count(count: int, flexible: bool) -> bytes:
    """Encodes a number of elements or bytes; compact counts are one higher, as 0 means null."""
    return unsigned_varint(count + 1) if flexible else _INT32.pack(count)
