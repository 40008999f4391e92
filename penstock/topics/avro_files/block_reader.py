"""A container file, read block by block: header and codecs are those of Apache's `avro`.

Its `DataFileReader` does not serve here. It takes a wrong sync marker for the beginning of a block,
reads on behind the end of a block that is not compressed, must be able to seek, and makes objects
of all it reads. So blocks are told apart here, and nobody is believed:

1. A block is used only if its sync marker follows it, where its header says.
2. Neither what is stored of it nor what it unpacks to is larger than `codecs.MOST_BYTES`.
3. Its bodies are walked (schemas/bodies/checking.py), as many as it says, and it ends with them.

Whatever is wrong is one BadAvroFile, which names the block and the byte at which it begins. What
comes before has been handed out by then.
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
    """It is damaged, cut short, or none."""


class AvroFile:
    """A container file whose header was read."""

    def __init__(self, stream: BufferedReader) -> None:
        """BadAvroFile if it has no header."""
        self._source = _Source(stream, _MOST_OF_A_HEADER)
        magic = self._source.read(len(MAGIC))
        if magic != MAGIC:
            raise BadAvroFile(f"it begins with {magic!r}: it is no Avro container file")
        meta = self._read_meta()
        self._codec = meta.get(CODEC_KEY, NULL_CODEC.encode()).decode(errors="replace")
        if self._codec not in CODECS:
            known = ", ".join(sorted(CODECS))
            raise BadAvroFile(f"its codec is {self._codec!r}, and those known are {known}")
        self.schema = _parsed(meta)
        self._check = BodyCheck(self.schema.type, text=True)

    def bodies(self) -> Iterator[bytes | None]:
        """All of them, in their order; None behind each block."""
        number = 0
        while not self._source.is_at_end():
            number += 1
            start = self._source.position
            try:
                count, data = self._block()
                yield from self._split(count, data)
            except BadAvroFile as error:
                raise BadAvroFile(f"block {number}, at byte {start}: {error}") from None
            yield None

    def _read_meta(self) -> dict[str, bytes]:
        of_meta = META_SCHEMA.fields_dict["meta"].type
        try:
            meta = DatumReader().read_data(of_meta, of_meta, self._source.decoder)
        except (AvroException, ValueError) as error:
            raise BadAvroFile(f"its header cannot be read: {error}") from None
        self._marker = self._source.exactly(SYNC_SIZE)
        self._source.limit = None
        assert isinstance(meta, dict)
        return meta

    def _block(self) -> tuple[int, bytes]:
        """How many bodies the next block has, and all of them."""
        count, size = self._source.number(), self._source.number()
        if count < 0 or not 0 <= size <= MOST_BYTES:
            raise BadAvroFile(
                f"{count:,} values in {size:,} bytes: no more than {MOST_BYTES:,} bytes are read"
            )
        stored = self._source.exactly(size)
        if self._source.exactly(SYNC_SIZE) != self._marker:
            raise BadAvroFile("the sync marker does not follow it: it is damaged")
        try:
            # Codecs want the length once more.
            unpacking = BinaryDecoder(BytesIO(long_bytes(size) + stored))
            data = CODECS[self._codec].decompress(unpacking).reader.read()
        except _CANNOT_UNPACK as error:
            raise BadAvroFile(f"it cannot be unpacked with {self._codec}: {error}") from None
        # What takes no byte can be there as often as somebody says.
        if count > max(len(data), MOST_ITEMS):
            raise BadAvroFile(f"{count:,} values are more than its {len(data):,} bytes can hold")
        return count, data

    def _split(self, count: int, data: bytes) -> Iterator[bytes]:
        end_of = self._check.end_of
        start = 0
        for number in range(1, count + 1):
            try:
                end = end_of(data, start)
            except BadMessage as error:
                raise BadAvroFile(f"value {number:,} of {count:,}: {error}") from None
            if end - start > MOST_OF_A_BODY:
                raise BadAvroFile(
                    f"value {number:,} of {count:,} has {end - start:,} bytes, and "
                    f"{MOST_OF_A_BODY:,} are allowed"
                )
            yield data[start:end]
            start = end
        if start != len(data):
            raise BadAvroFile(f"{len(data) - start:,} bytes follow the last of {count:,} values")


def _parsed(meta: dict[str, bytes]) -> AvroSchema:
    text = meta.get(SCHEMA_KEY)
    if not text:
        raise BadAvroFile("its header has no schema")
    try:
        return parse(text.decode(), strict=False)
    except (InvalidSchema, UnicodeDecodeError) as error:
        raise BadAvroFile(f"its schema cannot be used: {error}") from None


class _Source:
    """A stream that knows where it is. Of a pipe, too: nobody seeks."""

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
        """Less, where it ends."""
        if self.limit is not None and self.position + size > self.limit:
            raise BadAvroFile(f"its header has more than {self.limit:,} bytes")
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise _unread(error) from None
        self.position += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        data = self.read(size)
        if len(data) < size:
            raise BadAvroFile(f"the file ends at byte {self.position:,}, in the middle of it")
        return data

    def number(self) -> int:
        try:
            return self.decoder.read_long()
        except AvroException:
            if self.is_at_end():
                raise BadAvroFile(
                    f"the file ends at byte {self.position:,}, in the middle of it"
                ) from None
            raise BadAvroFile("it begins with no number") from None


def _unread(error: OSError) -> BadAvroFile:
    return BadAvroFile(f"it cannot be read: {error.strerror or error}")
