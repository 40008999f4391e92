"""Frames of lz4 and zstd say how much they hold, or do not, or lie."""

import random

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard

from wire.errors import BatchError
from wire.record_batches.compression import Codec, decompress

SIZES = [0, 1, 255, 256, 257, 65_535, 65_791, 65_792, 200_000]


def contents(size: int) -> bytes:
    """Half of it can be compressed."""
    return random.Random(size).randbytes(size // 2) + bytes(size - size // 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("frames", [1, 3])
def test_zstd_with_and_without_its_size(size: int, said: bool, frames: int) -> None:
    data = contents(size)
    frame = zstandard.ZstdCompressor(write_content_size=said, write_checksum=said).compress(data)
    assert bytes(decompress(Codec.ZSTD, memoryview(frame * frames))) == data * frames


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("frames", [1, 3])
def test_lz4_with_and_without_its_size(size: int, said: bool, frames: int) -> None:
    data = contents(size)
    frame = lz4.frame.compress(data, store_size=said, content_checksum=said)
    assert bytes(decompress(Codec.LZ4, memoryview(frame * frames))) == data * frames


@pytest.mark.parametrize("said", [256, 299, 301, 65_535])
def test_a_zstd_frame_that_lies_about_its_size(said: int) -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(contents(300)))
    assert frame[5:7] == (300 - 256).to_bytes(2, "little")
    frame[5:7] = (said - 256).to_bytes(2, "little")
    with pytest.raises(BatchError):
        decompress(Codec.ZSTD, memoryview(frame))
