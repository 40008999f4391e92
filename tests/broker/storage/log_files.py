"""Batches to append, and logs that are driven as a broker does."""

import os
import random
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from broker.storage.config import LogConfig
from broker.storage.log import Log
from broker.storage.segments.batches import Appended
from wire.framing.slices import FileSlice
from wire.record_batches.batch import BatchHeader, check_batch, headers
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

TOPIC_ID = uuid.UUID("0f6d5c1e-9a55-4a5e-8a39-5f3e4c0f9a11")
NOW = 1_790_000_000_000


def batch(
    records: int = 1,
    *,
    size: int = 10,
    timestamps: Sequence[int] = (),
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """A batch as a producer sends it, the same for the same producer, epoch and sequence."""
    times = timestamps or [NOW] * records
    producer_id, epoch, sequence = producer
    chance = random.Random(str(producer) if producer_id >= 0 else None)
    messages = [Record(at, time, b"key", chance.randbytes(size)) for at, time in enumerate(times)]
    return bytearray(
        build_batch(
            messages,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def append(log: Log, sent: bytearray, now_ms: int = NOW, leader_epoch: int = 0) -> Appended:
    view = memoryview(sent)
    return log.append(view, check_batch(view), leader_epoch, now_ms)


def grow(
    log: Log,
    count: int,
    records: int = 1,
    *,
    now_ms: int = NOW,
    leader_epoch: int = 0,
    producer: int = -1,
    first: int = 0,
    flushed: bool = True,
    **how: Any,
) -> None:
    """Append so many batches of so many records; `producer` sends them from sequence `first` on."""
    for sequence in range(first, first + count * records, records):
        sent_by = (producer, 0, sequence) if producer >= 0 else (-1, -1, -1)
        append(log, batch(records, producer=sent_by, **how), now_ms, leader_epoch)
    if flushed:
        flush(log)


def flush(log: Log) -> None:
    ticket = log.begin_flush()
    if ticket is not None:
        ticket.run()
        log.complete_flush(ticket)


def checkpoint(log: Log, now_ms: int = NOW) -> tuple[int, int]:
    """Twice, so that the recovery point is the end of the log."""
    log.checkpoint(now_ms)
    flush(log)
    return log.checkpoint(now_ms)


def create(directory: Path, **config: object) -> Log:
    directory.mkdir(exist_ok=True)
    return Log.create(directory / "topic-0", TOPIC_ID, LogConfig(**config))  # type: ignore[arg-type]


def reopen(
    log: Log,
    *,
    recovery_point: int | None = None,
    clean: bool = False,
    now_ms: int = NOW,
    reached: int = 0,
) -> Log:
    """Open what another `Log` left, as after a crash or a clean stop."""
    return Log.open(
        log.directory,
        log.config,
        recovery_point=log.recovery_point if recovery_point is None else recovery_point,
        start_offset=log.start_offset,
        clean=clean,
        now_ms=now_ms,
        reached=reached,
    )


def content(piece: FileSlice) -> bytes:
    return os.pread(piece.file.fileno(), piece.length, piece.position)


def read_on(log: Log, offset: int, max_bytes: int = 1 << 20) -> Iterator[tuple[BatchHeader, bytes]]:
    """All batches from `offset` on, fetched as a consumer does."""
    while (piece := log.read(offset, max_bytes)) is not None:
        data = content(piece)
        assert len(data) == piece.length
        end = 0
        for position, header in headers(data):
            yield header, data[position : position + header.size]
            end = position + header.size
            offset = header.next_offset
        assert end == len(data) > 0, "a fetch returns whole batches"


def log_file(log: Log, base_offset: int = 0, suffix: str = ".log") -> Path:
    return log.directory / f"{base_offset:020d}{suffix}"


def names(log: Log, suffix: str) -> list[int]:
    """The offsets in the names of all files of a kind."""
    return sorted(int(path.name[:20]) for path in log.directory.glob(f"*{suffix}"))


def filled(directory: Path, count: int = 20, *, flushed: bool = True, **config: object) -> Log:
    """A log of `count` batches of 3 records, abandoned as in a crash."""
    log = create(directory, **config)
    grow(log, count, 3, size=20, producer=5, flushed=flushed)
    log.abandon()
    return log


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header, _ in read_on(log, log.start_offset)]


def positions(log: Log, base_offset: int = 0) -> list[int]:
    """Where the batches of a segment begin, and its end."""
    content = log_file(log, base_offset).read_bytes()
    found, position = [0], 0
    while position < len(content):
        position += 12 + int.from_bytes(content[position + 8 : position + 12])
        found.append(position)
    return found


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def flip(path: Path, position: int) -> None:
    """Damage of a byte, whatever it was."""
    with path.open("r+b") as file:
        file.seek(position)
        (found,) = file.read(1)
        file.seek(position)
        file.write(bytes([found ^ 0x10]))


def forget_snapshots(log: Log) -> None:
    """As if the log had never got as far as it says."""
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
