"""Record batches as agents and other clients build them, and their expected summaries."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ledger.counting.batches import PartitionCount
from schemas.envelope import Encoder
from schemas.event_schemas import LOG_LINE, built_in
from wire.record_batches.batch import BatchHeader, read_header
from wire.record_batches.records import Codec, Record, build_batch

WINDOW = 60_000
NOON = 1_795_176_000_000  # the start of a window
SOURCE = "0123456789abcdefghjk"


def event(time: int, seq: int, *, source: str = SOURCE) -> bytes:
    header = {
        "time": time, "host": "web-1", "app": "shop", "source": source, "seq": seq, "position": 9,
    }  # fmt: skip
    return Encoder(built_in(LOG_LINE), 7).encode({"header": header, "path": "/l", "message": "hi"})


def agents_batch(
    times: Sequence[int], *, base: int = 0, codec: Codec = Codec.ZSTD, producer: int = 5
) -> bytes:
    """Returns a batch as an agent builds it: the smallest timestamp is the base."""
    messages = [Record(base + seq, time, None, event(time, seq)) for seq, time in enumerate(times)]
    return build_batch(
        messages,
        codec=codec,
        base_offset=base,
        base_timestamp=min(times),
        producer_id=producer,
        producer_epoch=0,
        base_sequence=base,
    )


def foreign_batch(
    times: Sequence[int], *, base: int = 0, codec: Codec = Codec.NONE, producer: int = -1
) -> bytes:
    """Returns a batch as other clients build it: the first record's timestamp is the base."""
    messages = [Record(base + seq, time, b"key", b"value") for seq, time in enumerate(times)]
    return build_batch(
        messages,
        codec=codec,
        base_offset=base,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=base if producer >= 0 else -1,
    )


def header_of(batch: bytes) -> BatchHeader:
    return read_header(batch)


def empty_count(first: int = 0, *, seen: int | None = None) -> PartitionCount:
    return PartitionCount(
        topic="clicks", topic_id="id", partition=0, next_offset=first, leader_epoch=3, seen=seen
    )


def events_by_window(times: Iterable[int], window: int = WINDOW) -> dict[int, int]:
    return dict(Counter(time // window * window for time in times))


def counted_events(count: PartitionCount) -> dict[int, int]:
    return {start: sums.events for start, sums in count.windows.items() if sums.events}
