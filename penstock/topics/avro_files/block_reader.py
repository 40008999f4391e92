"""Reads a container file block by block, with the header and codecs of Apache's `avro`.

Its `DataFileReader` is not used: it takes a wrong sync marker for the start of a block, reads past
the end of an uncompressed block, needs to seek, and turns everything into objects. So blocks are
separated here, and nothing in the file is trusted:

1. A block is used only if its sync marker follows it, where its header says.
2. Neither what is stored of it nor what it unpacks to is larger than `codecs.MOST_BYTES`.
3. Its bodies are checked (schemas/bodies/checking.py): their count is right, and they fill it.

Any fault is a BadAvroFile, which names the block and its first byte. The blocks before it have been
returned by then.
"""

import zlib
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from typing import IO, Final, cast

from avro.datafile import CODEC_KEY, MAGIC, META_SCHEMA, NULL_CODEC, SCHEMA_KEY, SYNC_SIZE
from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader

from ground.varints import long_bytes
from penstock.topics.avro_files.codecs import CODECS, MOST_BYTES
from schemas.bodies.checking import MOST_BYTES as MOST_OF_A_BODY
from schemas.bodies.checking import MOST_ITEMS, BodyCheck
from schemas.errors import BadMessage, InvalidSchema
from schemas.parsing import AvroSchema, parse

_MOST_OF_A_HEADER: Final = 16 * 1024 * 1024
_CANNOT_UNPACK: Final = (AvroException, zlib.error, OSError, ValueError, EOFError)


class BadAvroFile(Exception):
    """The file is damaged, truncated, or not a container file."""


class AvroFile:
    """A container file whose header has been read."""

    def __init__(self, stream: BufferedReader) -> None:
        """BadAvroFile if the header is invalid."""
        self._source = _Source(stream, _MOST_OF_A_HEADER)
        magic = self._source.read(len(MAGIC))
        if magic != MAGIC:
            raise BadAvroFile(f"not an Avro container file: it begins with {magic!r}")
        meta = self._read_meta()
        self._codec = meta.get(CODEC_KEY, NULL_CODEC.encode()).decode(errors="replace")
        if self._codec not in CODECS:
            codec_names = ", ".join(sorted(CODECS))
            raise BadAvroFile(f"unknown codec {self._codec!r}; known codecs: {codec_names}")
        self.schema = _parsed(meta)
        self._check = BodyCheck(self.schema.type, text=True)

    def bodies(self) -> Iterator[bytes | None]:
        """Yields all bodies in order, and None after each block."""
        block_number = 0
        while not self._source.is_at_end():
            block_number += 1
            start = self._source.position
            try:
                count, data = self._block()
                yield from self._split(count, data)
            except BadAvroFile as error:
                raise BadAvroFile(f"block {block_number}, at byte {start}: {error}") from None
            yield None

    def _read_meta(self) -> dict[str, bytes]:
        meta_type = META_SCHEMA.fields_dict["meta"].type
        try:
            meta = DatumReader().read_data(meta_type, meta_type, self._source.decoder)
        except (AvroException, ValueError) as error:
            raise BadAvroFile(f"the header cannot be read: {error}") from None
        self._marker = self._source.exactly(SYNC_SIZE)
        self._source.limit = None
        assert isinstance(meta, dict)
        return meta

    def _block(self) -> tuple[int, bytes]:
        """The number of bodies in the next block, and its data."""
        count, size = self._source.number(), self._source.number()
        if count < 0 or not 0 <= size <= MOST_BYTES:
            raise BadAvroFile(
                f"{count:,} values in {size:,} bytes: the limit is {MOST_BYTES:,} bytes"
            )
        stored_bytes = self._source.exactly(size)
        if self._source.exactly(SYNC_SIZE) != self._marker:
            raise BadAvroFile("the block is damaged: no sync marker follows")
        try:
            # Codecs want the length once more.
            decoder = BinaryDecoder(BytesIO(long_bytes(size) + stored_bytes))
            data = CODECS[self._codec].decompress(decoder).reader.read()
        except _CANNOT_UNPACK as error:
            raise BadAvroFile(f"{self._codec} cannot decompress the block: {error}") from None
        # Values without bytes could be claimed in any number.
        if count > max(len(data), MOST_ITEMS):
            raise BadAvroFile(f"{count:,} values do not fit into {len(data):,} bytes")
        return count, data

    def _split(self, count: int, data: bytes) -> Iterator[bytes]:
        find_end = self._check.end_of
        start = 0
        for number in range(1, count + 1):
            try:
                end = find_end(data, start)
            except BadMessage as error:
                raise BadAvroFile(f"value {number:,} of {count:,}: {error}") from None
            if end - start > MOST_OF_A_BODY:
                raise BadAvroFile(
                    f"value {number:,} of {count:,} has {end - start:,} bytes; the limit is "
                    f"{MOST_OF_A_BODY:,}"
                )
            yield data[start:end]
            start = end
        if start != len(data):
            raise BadAvroFile(f"{len(data) - start:,} bytes follow the last of {count:,} values")


def _parsed(meta: dict[str, bytes]) -> AvroSchema:
    text = meta.get(SCHEMA_KEY)
    if not text:
        raise BadAvroFile("the header has no schema")
    try:
        return parse(text.decode(), strict=False)
    except (InvalidSchema, UnicodeDecodeError) as error:
        raise BadAvroFile(f"the schema cannot be used: {error}") from None


class _Source:
    """A stream that counts its position, since it may be a pipe, which cannot seek."""

    def __init__(self, stream: BufferedReader, limit: int) -> None:
        self._stream = stream
        self.position = 0
        self.limit: int | None = limit  # up to which it may be read
        self.decoder = BinaryDecoder(cast("IO[bytes]", self))  # which only reads

    def is_at_end(self) -> bool:
        try:
            return not self._stream.peek(1)
        except OSError as error:
            raise _unread(error) from None

    def read(self, size: int) -> bytes:
        """Reads `size` bytes; fewer at the end of the stream."""
        if self.limit is not None and self.position + size > self.limit:
            raise BadAvroFile(f"the header has more than {self.limit:,} bytes")
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise _unread(error) from None
        self.position += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        data = self.read(size)
        if len(data) < size:
            raise BadAvroFile(f"the file is truncated: it ends at byte {self.position:,}")
        return data

    def number(self) -> int:
        try:
            return self.decoder.read_long()
        except AvroException:
            if self.is_at_end():
                raise BadAvroFile(
                    f"the file is truncated: it ends at byte {self.position:,}"
                ) from None
            raise BadAvroFile("the block does not begin with a number") from None


def _unread(error: OSError) -> BadAvroFile:
    return BadAvroFile(f"it cannot be read: {error.strerror or error}")
