"""Record batches that somebody has altered who can compute a CRC: each has the offsets and the
producer's numbers of the batch that it is made of. Pure."""

from collections.abc import Callable, Iterable
from typing import Final

from crc32c import crc32c

from wire.record_batches.batch import CRC_START, Buffer, headers, read_header
from wire.record_batches.records import Codec, Record, build_batch, records

_CRC_BYTES: Final = 4


def rebuilt(batch: Buffer, content: Iterable[Record], *, codec: Codec | None = None) -> bytes:
    """Returns the batch with other records, and with its CRC made right again. Their offsets must
    be among the batch's."""
    header = read_header(batch)
    return build_batch(
        content,
        codec=Codec(header.codec) if codec is None else codec,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def with_altered_byte(batch: Buffer) -> bytes:
    """Alters the last byte of the last record's value; a digit becomes a letter."""
    *others, last = records(batch)
    value = last.value or b""
    altered = value[:-1] + bytes([value[-1] ^ 0x40])
    return rebuilt(batch, [*others, last._replace(value=altered)])


def reordered(batch: Buffer) -> bytes:
    """Gives the records to the batch's offsets in the reverse order."""
    content = list(records(batch))
    offsets = [record.offset for record in content]
    backwards = zip(offsets, reversed(content), strict=True)
    return rebuilt(batch, [record._replace(offset=offset) for offset, record in backwards])


def emptied(batch: Buffer) -> bytes:
    """Takes all records out, as compaction does."""
    return rebuilt(batch, [])


def with_values(batch: Buffer, values: Iterable[bytes | None]) -> bytes:
    """Gives the records other values."""
    pairs = zip(records(batch), values, strict=False)
    return rebuilt(batch, [record._replace(value=value) for record, value in pairs])


def without_producer(batch: Buffer) -> bytes:
    """The same records, as sent by a producer without numbers."""
    header = read_header(batch)
    return build_batch(records(batch), codec=Codec(header.codec), base_offset=header.base_offset)


def with_crc_of(batch: Buffer, other: Buffer) -> bytes:
    """Gives a batch the CRC of another one, by four bytes in a header of its last record: a CRC
    finds errors, and is no signature."""
    *others, last = records(batch)
    padded_record = last._replace(headers=(*last.headers, ("padding", bytes(_CRC_BYTES))))
    padded = rebuilt(batch, [*others, padded_record], codec=Codec.NONE)
    crc = read_header(other).crc
    head = padded[: CRC_START - _CRC_BYTES] + crc.to_bytes(_CRC_BYTES, "big")
    return head + padded[CRC_START:-_CRC_BYTES] + _ending(padded, crc)


def _ending(batch: bytes, crc: int) -> bytes:
    """Returns the four last bytes with which the batch has this CRC.

    Each bit of them changes certain bits of the CRC, whatever the other bits are. So the wanted
    change is put together of these: they are brought into a form in which each has a highest bit of
    its own, as in Gaussian elimination.
    """
    head = batch[CRC_START:-_CRC_BYTES]
    present = crc32c(head + bytes(_CRC_BYTES))
    by_highest_bit: dict[int, tuple[int, int]] = {}
    for bit in range(8 * _CRC_BYTES):
        ending = 1 << bit
        change = present ^ crc32c(head + ending.to_bytes(_CRC_BYTES, "big"))
        while (known := by_highest_bit.get(change.bit_length())) is not None:
            change, ending = change ^ known[0], ending ^ known[1]
        by_highest_bit[change.bit_length()] = change, ending
    rest, chosen = present ^ crc, 0
    while rest:
        change, ending = by_highest_bit[rest.bit_length()]
        rest, chosen = rest ^ change, chosen ^ ending
    return chosen.to_bytes(_CRC_BYTES, "big")


def all_changed(batches: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Changes each complete batch; the rest stays."""
    parts: list[bytes] = []
    end = 0
    for start, header in headers(batches):
        end = start + header.size
        parts.append(change(batches[start:end]))
    return b"".join((*parts, batches[end:]))
