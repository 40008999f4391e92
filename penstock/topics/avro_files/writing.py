"""A container file, written block by block with Apache's `avro`.

Its header, its blocks, its codecs and when a block is full are those of Apache's `DataFileWriter`.
It is given bodies, which are written already: `avro` itself would take ten times as long for all of
it. What has become a block is handed on at once and whole.
"""

from io import BytesIO
from typing import Any, Final

import avro.schema
from avro.datafile import DataFileWriter
from avro.io import DatumWriter

from penstock.cli.failures import Failed
from penstock.topics.avro_files.codecs import CODECS
from penstock.topics.avro_files.new_file import Output
from schemas.parsing import AvroSchema

# As which `avro` is told to write: bytes, of which it needs to know nothing. What they are stands
# in the file's header, in the registry's words: `avro` would not find every name that Java does.
_BYTES: Final = avro.schema.parse('"bytes"')


class _Bodies(DatumWriter):
    """Writes bodies as they are."""

    def write(self, datum: Any, encoder: Any) -> None:
        encoder.write(datum)


class BlockWriter:
    """Bodies of a schema as a container file. The header is written at once."""

    def __init__(self, output: Output, schema: AvroSchema, codec: str) -> None:
        if codec not in CODECS:
            raise Failed(f"this Python was built without {codec}")
        self._output = output
        self._made = BytesIO()
        self._file = DataFileWriter(self._made, _Bodies(), _BYTES, codec)
        self._file.schema = schema.resolved_text
        self._file.flush()
        self._hand_on()

    def append(self, body: bytes) -> None:
        self._file.append(body)
        if self._made.tell():
            self._hand_on()

    def flush(self) -> None:
        """Ends a block, unless it is empty."""
        if self._file.block_count:
            self._file.flush()
            self._hand_on()

    def _hand_on(self) -> None:
        self._output.write(self._made.getvalue())
        self._made.seek(0)
        self._made.truncate()
