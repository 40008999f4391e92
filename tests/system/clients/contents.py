"""Records whose every byte can be checked after they were sent and read."""

import random
from collections.abc import Sequence

from tests.system.clients.interface import Consumed, Record

EPOCH = 1_700_000_000_000
"""Where the timestamps of tests begin: fixed, so that a failure can be repeated."""


def awkward(seed: int, *, null_headers: bool, count: int = 40) -> list[Record]:
    """Nulls, empties, every byte value, repeated headers, timestamps out of order."""
    chance = random.Random(seed)

    def some(longest: int) -> bytes | None:
        return chance.choice(
            [None, b"", chance.randbytes(chance.randrange(1, longest)), b"text " * (longest // 5)]
        )

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        names = chance.choices(["a", "b", "trace-id", "ключ"], k=chance.randrange(4))
        values = (some(20) for _ in names)
        return tuple(
            (name, value if value is not None or null_headers else b"")
            for name, value in zip(names, values, strict=True)
        )

    def content() -> tuple[bytes | None, bytes | None]:
        value, key = some(2000), some(50)
        # Two clients refuse to send neither key nor value.
        return (value, key) if (value, key) != (None, None) else (None, b"the key")

    def timestamp(number: int) -> int:
        return EPOCH + 1000 * number + chance.randrange(5000)

    return [Record(*content(), headers(), timestamp(number)) for number in range(count)]


def plain(seed: int, *, null_headers: bool, count: int = 40) -> list[Record]:
    """What every client, kcat included, can send and print: text, a key or none, a value or none.

    The headers are the same in every record, the timestamps are the client's own.
    """
    chance = random.Random(seed)

    def text(longest: int) -> bytes:
        return "".join(chance.choices("abc dé\t\n=,%", k=chance.randrange(1, longest))).encode()

    headers = (("kind", b"plain"), ("nothing", None if null_headers else b"no"))
    contents: list[tuple[bytes | None, bytes | None]] = [
        *((None, text(20)) for _ in range(count // 4)),
        *((text(300), None) for _ in range(count // 4)),
        *((text(300), text(20)) for _ in range(count - 2 * (count // 4))),
    ]
    chance.shuffle(contents)
    return [Record(value, key, headers) for value, key in contents]


def without_timestamps(consumed: Sequence[Consumed]) -> list[Record]:
    return [Record(each.record.value, each.record.key, each.record.headers) for each in consumed]
