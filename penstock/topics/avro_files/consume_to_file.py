"""`penstock consume --avro-file`: a topic's events into a container file.

All records of a file are of one schema. Events that were written with another version are brought
into it; what cannot be, and what is no event, is named and left out, and the command then ends with
exit code 1.

Where the end is known (`--count`, `--to-end`) the file is there once it is complete, and else not
at all. Where it goes on until Ctrl-C, it is there from the start, and grows by whole blocks: at the
latest a second after something has come. Ctrl-C and SIGTERM are obeyed at once while something is
waited for, and not in the middle of a block.

The file is written block by block with Apache's `avro`: its header, its blocks, its codecs and when
a block is full are those of Apache's `DataFileWriter`. It is given bodies, which are written
already: `avro` itself would take ten times as long for all of it. What has become a block is handed
on at once and whole.
"""

import signal
import sys
import time
from io import BytesIO
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

import avro.schema
import click
from avro.datafile import DataFileWriter
from avro.io import DatumWriter

from client.errors import ClientError
from client.reading.consumer import Consumer, ConsumerRecord
from penstock.cli.failures import Failed
from penstock.cli.output import print_json
from penstock.topics.avro_files.codecs import CODECS
from penstock.topics.avro_files.new_file import STDOUT, NewFile, Output, StandardOutput
from penstock.topics.avro_files.skipped_values import LeftOut
from penstock.topics.avro_files.topic_schema import RegisteredTopicSchema
from schemas.conversion import MessageConverter
from schemas.errors import BadMessage, SchemaError
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

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


_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_FLUSH_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 0.2


class FileInterrupted(BaseException):
    """No error, and nobody's to catch but who looks after the file."""


class Interruption:
    """As a context it has the signals. `told` is the one that came.

    What is under way may end by itself; who still waits a moment later is called away from there.
    Never at once: what is just being opened would stay open.
    """

    def __init__(self) -> None:
        self.told: int | None = None
        self.waits = False  # and may be called away

    @property
    def exit_code(self) -> int:
        """As shells have it."""
        return 0 if self.told is None else 128 + self.told

    def __enter__(self) -> Self:
        # What was started in the background may have been told to take no notice.
        heard = [
            signal_number
            for signal_number in _SIGNALS
            if signal.getsignal(signal_number) is not signal.SIG_IGN
        ]
        self._before = {
            signal_number: signal.signal(signal_number, self._tell) for signal_number in heard
        }
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._call_away)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _tell(self, number: int, _: FrameType | None) -> None:
        self.told = number
        signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)

    def _call_away(self, _number: int, _: FrameType | None) -> None:
        if self.waits:
            self.waits = False
            raise FileInterrupted


class Receiving:
    """One run of the command."""

    def __init__(
        self,
        topic: str,
        path: Path,
        target: RegisteredTopicSchema,
        client: RegistryClient,
        *,
        codec: str,
        overwrite: bool,
        count: int | None,
        has_end: bool,
    ) -> None:
        """`has_end`: it ends by itself."""
        self._topic = topic
        self._path = path
        self._target = target
        self._converter = MessageConverter(client.schema_of_message, target.schema)
        self._codec = codec
        self._overwrite = overwrite
        self._left = count
        self._has_end = has_end
        self._written = 0
        self._left_out = LeftOut()
        self._offsets: dict[int, list[int]] = {}  # of each partition, the first and the last

    def run(self, consumer: Consumer, *, as_json: bool) -> int:
        """The exit code."""
        started = time.monotonic()
        with Interruption() as interruption, self._output() as output:
            writer = BlockWriter(output, self._target.schema, self._codec)
            if not self._has_end:
                output.publish()
            try:
                self._receive(consumer, writer, interruption)
            except (ClientError, SchemaError):
                if not self._has_end:
                    writer.flush()
                raise
            if self._has_end and interruption.told is not None:
                if self._path != STDOUT:
                    _say(f"{self._path} was not written: it was not complete yet")
                return interruption.exit_code
            writer.flush()
            output.publish()
        if as_json:
            print_json(self._document())
        elif sys.stderr.isatty():
            seconds = time.monotonic() - started
            said = f"{self._written:,} events of {self._topic} in {self._path}, in {seconds:.1f} s"
            click.echo(said, err=True)
        if left_out := self._left_out.count:
            messages = self._written + left_out
            _say(f"{left_out:,} of {messages:,} messages of {self._topic} are not in {self._path}")
        return interruption.exit_code or int(left_out > 0)

    def _output(self) -> Output:
        if self._path == STDOUT:
            return StandardOutput()
        return NewFile(self._path, overwrite=self._overwrite)

    def _receive(self, consumer: Consumer, writer: BlockWriter, interruption: Interruption) -> None:
        flushed = time.monotonic()
        while not consumer.finished and self._left != 0 and interruption.told is None:
            interruption.waits = True
            try:
                for message in consumer.poll(_FLUSH_SECONDS):
                    self._take(message, writer, interruption)
                    if self._left == 0 or interruption.told is not None:
                        break
            except FileInterrupted:
                break
            finally:
                interruption.waits = False
            if not self._has_end and time.monotonic() >= flushed + _FLUSH_SECONDS:
                writer.flush()
                flushed = time.monotonic()

    def _take(
        self, message: ConsumerRecord, writer: BlockWriter, interruption: Interruption
    ) -> None:
        partition, record = message
        try:
            # A schema that is new has to be asked for, so this may be a wait as well.
            body = self._converter.body(record.value)
        except BadMessage as error:
            interruption.waits = False
            self._left_out.add(f"{self._topic}-{partition}, offset {record.offset}", error)
        else:
            interruption.waits = False
            writer.append(body)
            self._written += 1
            self._offsets.setdefault(partition, [record.offset, 0])[1] = record.offset
        if self._left is not None:
            self._left -= 1
        interruption.waits = True

    def _document(self) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "file": str(self._path),
            "messages": self._written,
            "left_out": self._left_out.count,
            "schema": self._target.document,
            "partitions": {
                str(partition): {"first": first, "last": last}
                for partition, (first, last) in sorted(self._offsets.items())
            },
        }


def _say(text: str) -> None:
    click.echo(f"penstock: {text}", err=True)
