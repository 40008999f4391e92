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
    moment = datetime.fromtimestamp(millis // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1000:03}Z"


def _filled(text: str, end: str, draw: random.Random) -> bytes:
    """The text, padded with hexadecimal digits (like the IDs and tokens in logs) to full length."""
    missing = LINE_BYTES - 1 - len(text) - len(end)
    assert missing >= 0, text
    return f"{text}{draw.randbytes(missing).hex()[:missing]}{end}\n".encode()


def plain_line(millis: int, draw: random.Random) -> bytes:
    service = draw.choice(_SERVICES)
    return _filled(
        f"{iso8601(millis)} {draw.choice(_LEVELS):5} [worker-{draw.randrange(32)}] "
        f"com.example.{service}.{service.capitalize()}Service - {draw.choice(_VERBS)} "
        f"{draw.choice(_THINGS)} {draw.randrange(10**8)} for customer {draw.randrange(10**6)} "
        f"in {draw.randrange(1, 2000)} ms, total={draw.uniform(1, 500):.2f} EUR trace=",
        "",
        draw,
    )


def json_line(millis: int, draw: random.Random) -> bytes:
    """A line with six typed fields and a time."""
    return _filled(
        f'{{"ts":"{iso8601(millis)}","level":"{draw.choice(_LEVELS).lower()}",'
        f'"status":{draw.choice((200, 200, 200, 304, 404, 500))},'
        f'"duration_ms":{draw.uniform(0.1, 900):.3f},"bytes":{draw.randrange(100, 10**6)},'
        f'"cached":{draw.choice(("true", "false"))},'
        f'"request":"GET {draw.choice(_PATHS)}/{draw.randrange(10**6)}?session=',
        '"}',
        draw,
    )


Line = Callable[[int, random.Random], bytes]


@cache
def block(line: Line) -> bytes:
    """`BLOCK_LINES` lines whose times are a millisecond apart."""
    draw = random.Random(0)
    return b"".join(line(_BEGIN_MILLIS + number, draw) for number in range(BLOCK_LINES))


def at_times(line: Line, times: Iterable[int]) -> bytes:
    draw = random.Random(0)
    return b"".join(line(millis, draw) for millis in times)


def around_the_end_of_a_window(count: int) -> list[int]:
    """Random times up to 30 s before and after a full minute, unsorted."""
    draw = random.Random(0)
    return [_BEGIN_MILLIS + draw.randrange(-30_000, 30_000) for _ in range(count)]


def pieces(content: bytes, lines: int) -> Iterator[bytes]:
    """Repeat the content until `lines` lines are returned."""
    missing = lines * LINE_BYTES
    while missing > 0:
        yield content[:missing]
        missing -= len(content)
