"""Produces as fast as the broker answers, with requests that were encoded beforehand.

Requests with acks=0 have no answer: each connection ends with one that has (`request_load`).
"""

import ssl
from collections.abc import Sequence

import msgspec

from bench.loads.request_load import send_all
from bench.loads.requests import MESSAGE_SIZE, produce_requests, record_batch


class Throughput(msgspec.Struct, frozen=True):
    """What a load generator got through."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def bytes(self) -> int:
        """Of payload: keys, framing and headers not counted."""
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
    """Sends batches of `batch` messages for so many seconds, or until `limit` are answered.
    `leaders` are the ports of each partition's."""
    body = record_batch(batch)
    written = [number % len(leaders) for number in range(connections)]
    answered = [produce_requests(topic, each, body, 1) for each in written] if acks == 0 else []
    sent = send_all(
        [leaders[each] for each in written],
        [produce_requests(topic, each, body, acks, at_least=window) for each in written],
        window=window,
        seconds=seconds,
        most=max(1, limit // batch),
        last=[each.cycle[: each.request_size] for each in answered],
        tls=tls,
    )
    return Throughput(messages=sent.requests * batch, seconds=sent.seconds)
