"""Produces as fast as the broker answers, with requests encoded beforehand.

Requests with acks=0 have no answer, so each connection ends with one that has (`request_load`).
"""

import ssl
from collections.abc import Sequence

import msgspec

from bench.loads.request_load import send_all
from bench.loads.requests import MESSAGE_SIZE, produce_requests, record_batch


class Throughput(msgspec.Struct, frozen=True):
    """The number of messages that a load generator sent or read, and the time."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def bytes(self) -> int:
        """The size of the messages' values."""
        return self.messages * MESSAGE_SIZE


def produce(
    leaders: Sequence[int],
    topic: str,
    *,
    batch: int,
    acks: int,
    connections: int = 1,
    window: int,
    seconds: float,
    limit: int = 2**62,
    tls: ssl.SSLContext | None = None,
) -> Throughput:
    """Sends batches of `batch` messages for `seconds`, or until `limit` messages are answered.

    `leaders` has the port of each partition's leader.
    """
    body = record_batch(batch)
    partitions = [number % len(leaders) for number in range(connections)]
    last_requests = (
        [produce_requests(topic, index, body, 1) for index in partitions] if acks == 0 else []
    )
    result = send_all(
        [leaders[index] for index in partitions],
        [produce_requests(topic, index, body, acks, at_least=window) for index in partitions],
        window=window,
        seconds=seconds,
        most=max(1, limit // batch),
        last=[requests.cycle[: requests.request_size] for requests in last_requests],
        tls=tls,
    )
    return Throughput(messages=result.requests * batch, seconds=result.seconds)
