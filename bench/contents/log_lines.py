"""Lines like those of applications, 200 bytes each with the line feed: plain text, and JSON.

A block of 20,000 different lines is generated once, from a fixed seed, and repeated. It is larger
than a batch, so that repetition does not improve compression.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Final

from schemas.event_schemas import HEADER, built_in

LINE_BYTES: Final = 200
BLOCK_LINES: Final = 20_000

_LEVELS: Final = ("INFO",) * 16 + ("DEBUG",) * 5 + ("WARN",) * 2 + ("ERROR",)
_SERVICES: Final = ("checkout", "search", "basket", "payment", "catalogue", "session")
_VERBS: Final = ("found", "stored", "sent", "refused", "began", "ended", "charged", "looked up")
_THINGS: Final = ("order", "item", "cart", "invoice", "customer", "voucher", "shipment", "page")
_PATHS: Final = ("/api/v2/orders", "/search", "/basket/items", "/login", "/img/products", "/health")

_BEGIN_MILLIS: Final = 1_790_000_040_000  # a full minute, not long ago

REQUEST_SCHEMA: Final = {
    "type": "record",
    "name": "Request",
    "namespace": "bench",
    "fields": [
        {"name": "header", "type": json.loads(built_in(HEADER).resolved_text)},
        {"name": "level", "type": "string"},
        {"name": "status", "type": "int"},
        {"name": "duration_ms", "type": "double"},
        {"name": "bytes", "type": "long"},
        {"name": "cached", "type": "boolean"},
        {"name": "request", "type": "string"},
    ],
}


def iso8601(millis: int) -> str:
    time_of_line = datetime.fromtimestamp(millis // 1000, UTC)
    return f"{time_of_line:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def filled(text: str, end: str, rng: random.Random) -> bytes:
    """The text, padded with hexadecimal digits (like the IDs and tokens in logs) to full length."""
    padding_length = LINE_BYTES - 1 - len(text) - len(end)
    assert padding_length >= 0, text
    return f"{text}{rng.randbytes(padding_length).hex()[:padding_length]}{end}\n".encode()


def plain_line(millis: int, rng: random.Random) -> bytes:
    service = rng.choice(_SERVICES)
    return filled(
        f"{iso8601(millis)} {rng.choice(_LEVELS):5} [worker-{rng.randrange(32)}] "
        f"com.example.{service}.{service.capitalize()}Service - {rng.choice(_VERBS)} "
        f"{rng.choice(_THINGS)} {rng.randrange(10**8)} for customer {rng.randrange(10**6)} "
        f"in {rng.randrange(1, 2000)} ms, total={rng.uniform(1, 500):.2f} EUR trace=",
        "",
        rng,
    )


def json_line(millis: int, rng: random.Random) -> bytes:
    """Returns a line with six typed fields and a time."""
    return filled(
        f'{{"ts":"{iso8601(millis)}","level":"{rng.choice(_LEVELS).lower()}",'
        f'"status":{rng.choice((200, 200, 200, 304, 404, 500))},'
        f'"duration_ms":{rng.uniform(0.1, 900):.3f},"bytes":{rng.randrange(100, 10**6)},'
        f'"cached":{rng.choice(("true", "false"))},'
        f'"request":"GET {rng.choice(_PATHS)}/{rng.randrange(10**6)}?session=',
        '"}',
        rng,
    )


Line = Callable[[int, random.Random], bytes]


@cache
def block(line: Line) -> bytes:
    """Returns `BLOCK_LINES` lines whose times are a millisecond apart."""
    rng = random.Random(0)
    return b"".join(line(_BEGIN_MILLIS + number, rng) for number in range(BLOCK_LINES))


def at_times(line: Line, times: Iterable[int]) -> bytes:
    rng = random.Random(0)
    return b"".join(line(millis, rng) for millis in times)


def around_the_end_of_a_window(count: int) -> list[int]:
    """Returns random times up to 30 s before and after a full minute, unsorted."""
    rng = random.Random(0)
    return [_BEGIN_MILLIS + rng.randrange(-30_000, 30_000) for _ in range(count)]


def pieces(content: bytes, lines: int) -> Iterator[bytes]:
    """Yields the content repeatedly, until `lines` lines have been yielded."""
    padding_length = lines * LINE_BYTES
    while padding_length > 0:
        yield content[:padding_length]
        padding_length -= len(content)
