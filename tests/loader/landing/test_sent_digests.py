"""Digests of batches as their agents have sent them, whatever time the broker gives them."""

import pytest

from ledger.passage_digests import digest_of_batch
from loader.landing.sent_digests import digest_as_sent
from wire.record_batches.batch import CRC_START, read_header, stamp, stamp_append_time
from wire.record_batches.records import Codec, Record, build_batch

TIMES = (1_000, 5_000, 3_000)


def digest(batch: bytes | bytearray) -> bytes:
    return digest_as_sent(read_header(batch), memoryview(batch))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_is_what_was_sent_whatever_the_broker_stamps(codec: Codec) -> None:
    records = [Record(place, time, None, b"line %d" % place) for place, time in enumerate(TIMES)]
    sent = build_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=0)
    stored = bytearray(sent)
    stamp(stored, 120, 3)
    assert digest(stored) == digest_of_batch(sent)
    stamp_append_time(stored, 99_000)
    assert digest_of_batch(stored) != digest_of_batch(sent)
    assert digest(stored) == digest_of_batch(sent)
    stored[-1] ^= 1
    assert digest(stored) != digest_of_batch(sent)


def test_what_is_no_batch_has_a_digest_of_its_own() -> None:
    batch = bytearray(build_batch([Record(0, 1_000, None, b"line")]))
    stamp_append_time(batch, 99_000)
    batch[-4:] = b"\xff" * 4
    assert digest(batch) == digest_of_batch(batch)
    assert len(batch) > CRC_START
