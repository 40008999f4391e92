"""The codecs of Avro's container files, registered with Apache's `avro`.

`avro` itself has null, deflate and bzip2; snappy and zstandard need two more packages. Penstock has
both in cramjam, so they are added to the table in which `avro` looks codecs up. The decompressed
size is limited, as by `avro`.
"""

from binascii import crc32
from io import BytesIO
from typing import Final

import cramjam
from avro.codecs import DEFAULT_MAX_DECOMPRESS_LENGTH, KNOWN_CODECS, Codec
from avro.errors import AvroException
from avro.io import BinaryDecoder

from wire.errors import BatchError
from wire.record_batches.compression import Codec as WireCodec
from wire.record_batches.compression import compress, decompress

MOST_BYTES: Final = DEFAULT_MAX_DECOMPRESS_LENGTH  # 200 MiB, of a block
_CRC_SIZE: Final = 4


class SnappyCodec(Codec):
    """A raw snappy block, followed by the CRC-32 of its contents, big-endian."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        block = bytes(cramjam.snappy.compress_raw(data)) + crc32(data).to_bytes(_CRC_SIZE, "big")
        return block, len(block)

    @staticmethod
    def decompress(readers_decoder: BinaryDecoder) -> BinaryDecoder:
        block = readers_decoder.read_bytes()
        data = _unpacked(WireCodec.SNAPPY, block[:-_CRC_SIZE])
        if crc32(data).to_bytes(_CRC_SIZE, "big") != block[-_CRC_SIZE:]:
            raise AvroException("the checksum does not match")
        return BinaryDecoder(BytesIO(data))


class ZstandardCodec(Codec):
    """Frames of Zstandard, as blocks."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        block = compress(WireCodec.ZSTD, data)
        return block, len(block)

    @staticmethod
    def decompress(readers_decoder: BinaryDecoder) -> BinaryDecoder:
        return BinaryDecoder(BytesIO(_unpacked(WireCodec.ZSTD, readers_decoder.read_bytes())))


def _unpacked(codec: WireCodec, packed: bytes) -> bytes:
    try:
        return bytes(decompress(codec, memoryview(packed), MOST_BYTES))
    except BatchError as error:
        raise AvroException(str(error)) from None


KNOWN_CODECS.update(snappy=SnappyCodec, zstandard=ZstandardCodec)
CODECS: Final = KNOWN_CODECS
