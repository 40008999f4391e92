"""`penstock consume --avro-file`: writes a topic's events into a container file.

All records of a file have one schema. Events of other versions are converted; those that cannot be,
and messages that are not events, are named and left out, and the exit code is 1.

With `--count` or `--to-end`, the file appears when it is complete, or not at all. Without, it
exists from the start and grows by whole blocks, at most a second after each message, until Ctrl-C.
Ctrl-C and SIGTERM end a wait at once, but do not interrupt a block.

Header, blocks, codecs and block sizes are those of Apache's `DataFileWriter`. It gets encoded
bodies, as encoding by `avro` would take ten times as long. A finished block is written at once.
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
from penstock.topics.avro_files.skipped_values import SkippedValues
from penstock.topics.avro_files.topic_schema import RegisteredTopicSchema
from schemas.conversion import MessageConverter
from schemas.errors import BadMessage, SchemaError
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

# `avro` writes opaque bytes. Their schema is in the file's header, in the registry's text, as
# `avro`
# does not resolve every name that Java does.
_BYTES: Final = avro.schema.parse('"bytes"')


class _Bodies(DatumWriter):
    """Writes encoded bodies unchanged."""

    def write(self, datum: Any, encoder: Any) -> None:
        encoder.write(datum)


class BlockWriter:
    """Writes bodies as a container file, beginning with the header."""

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
        """Ends the block, unless it is empty."""
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
    """A signal arrived during a wait. Not an Exception, so that only the file's writer catches
    it."""


class Interruption:
    """A context that handles signals. `received` is the signal that arrived, if any.

    Work in progress may end by itself; a wait is interrupted a moment later. Not at once, as a file
    or socket that is being opened would stay open."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.waits = False  # and may be called away

    @property
    def exit_code(self) -> int:
        """The exit code for the signal, by the convention of shells."""
        return 0 if self.received is None else 128 + self.received

    def __enter__(self) -> Self:
        # What was started in the background may have been told to take no notice.
        signals = [
            signal_number
            for signal_number in _SIGNALS
            if signal.getsignal(signal_number) is not signal.SIG_IGN
        ]
        self._before = {
            signal_number: signal.signal(signal_number, self._tell) for signal_number in signals
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
        for signal_number, handler in self._before.items():
            signal.signal(signal_number, handler)

    def _tell(self, number: int, _: FrameType | None) -> None:
        self.received = number
        signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)

    def _call_away(self, _number: int, _: FrameType | None) -> None:
        if self.waits:
            self.waits = False
            raise FileInterrupted


class FileConsumer:
    """One run of `penstock consume --avro-file`."""

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
        """`has_end`: the reading ends by itself."""
        self._topic = topic
        self._path = path
        self._target = target
        self._converter = MessageConverter(client.schema_of_message, target.schema)
        self._codec = codec
        self._overwrite = overwrite
        self._left = count
        self._has_end = has_end
        self._written = 0
        self._skipped = SkippedValues()
        self._offsets: dict[int, list[int]] = {}  # of each partition, the first and the last

    def run(self, consumer: Consumer, *, as_json: bool) -> int:
        """Writes the file; returns the exit code."""
        start = time.monotonic()
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
            if self._has_end and interruption.received is not None:
                if self._path != STDOUT:
                    _say(f"{self._path} was not written, as it was not complete")
                return interruption.exit_code
            writer.flush()
            output.publish()
        if as_json:
            print_json(self._document())
        elif sys.stderr.isatty():
            seconds = time.monotonic() - start
            summary = (
                f"{self._written:,} events of {self._topic} in {self._path}, in {seconds:.1f} s"
            )
            click.echo(summary, err=True)
        if skipped := self._skipped.count:
            messages = self._written + skipped
            _say(f"{skipped:,} of {messages:,} messages of {self._topic} are not in {self._path}")
        return interruption.exit_code or int(skipped > 0)

    def _output(self) -> Output:
        if self._path == STDOUT:
            return StandardOutput()
        return NewFile(self._path, overwrite=self._overwrite)

    def _receive(self, consumer: Consumer, writer: BlockWriter, interruption: Interruption) -> None:
        flush_time = time.monotonic()
        while not consumer.finished and self._left != 0 and interruption.received is None:
            interruption.waits = True
            try:
                for message in consumer.poll(_FLUSH_SECONDS):
                    self._take(message, writer, interruption)
                    if self._left == 0 or interruption.received is not None:
                        break
            except FileInterrupted:
                break
            finally:
                interruption.waits = False
            if not self._has_end and time.monotonic() >= flush_time + _FLUSH_SECONDS:
                writer.flush()
                flush_time = time.monotonic()

    def _take(
        self, message: ConsumerRecord, writer: BlockWriter, interruption: Interruption
    ) -> None:
        partition, record = message
        try:
            # A schema that is new has to be asked for, so this may be a wait as well.
            body = self._converter.body(record.value)
        except BadMessage as error:
            interruption.waits = False
            self._skipped.add(f"{self._topic}-{partition}, offset {record.offset}", error)
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
            "left_out": self._skipped.count,
            "schema": self._target.document,
            "partitions": {
                str(partition): {"first": first, "last": last}
                for partition, (first, last) in sorted(self._offsets.items())
            },
        }


def _say(text: str) -> None:
    click.echo(f"penstock: {text}", err=True)
