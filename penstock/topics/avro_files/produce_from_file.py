"""`penstock produce --avro-file`: sends the values of a container file to a topic, as events.

They are sent unchanged, after the five bytes that name their schema, which is then a version of the
topic's subject. With another version (`--schema-version`), each is converted; those that cannot be
are named and left out, and the exit code is 1. An event's time becomes the record's timestamp.
"""

import select
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import click

from client.producing.producer import Delivered, Producer
from penstock.cli.failures import Failed
from penstock.schemas.arguments import Which
from penstock.topics.avro_files.block_reader import AvroFile, BadAvroFile
from penstock.topics.avro_files.skipped_values import SkippedValues
from penstock.topics.avro_files.topic_schema import version_for, version_of
from schemas.bodies.checking import read_long
from schemas.conversion import Conversion
from schemas.envelope import PREFIX_SIZE, prefix
from schemas.errors import BadMessage, NotAnEvent
from schemas.event_schemas import check_event_schema
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

_LINGER_SECONDS: Final = 0.01


class FileProducer:
    """One run of `penstock produce --avro-file`."""

    def __init__(self, topic: str, path: Path, stream: BufferedReader) -> None:
        """Failed if it is not a usable container file."""
        self._topic = topic
        self._path = path
        self._stream = stream
        try:
            self._file = AvroFile(stream)
        except BadAvroFile as error:
            raise Failed(f"{path}: {error}") from None
        self._skipped = SkippedValues()
        self._damage: BadAvroFile | None = None

    def find_schema(self, client: RegistryClient, wanted: Which | None) -> None:
        """Finds the version to use; without `wanted`, that of the file's own schema, which is
        registered if it is new."""
        schema = self._file.schema
        if wanted is None:
            self._target = version_for(client, self._topic, self._path, schema)
        else:
            self._target = version_of(client, self._topic, wanted)
        if self._target.is_new:
            _, subject, version, schema_id, _ = self._target
            message = f"penstock: registered {subject}: version {version}, id {schema_id}"
            click.echo(message, err=True)
        self._conversion = Conversion(schema, self._target.schema)

    @property
    def document(self) -> dict[str, Any]:
        return {"left_out": self._skipped.count, "schema": self._target.document}

    def failure(self, sent: int) -> str:
        """Says why not all values were sent; empty if they were."""
        if self._damage is not None:
            return f"{self._path}: {self._damage}; {sent:,} values before it were sent"
        if skipped_count := self._skipped.count:
            return f"{skipped_count:,} values of {self._path} were not sent, {sent:,} were"
        return ""

    def run(
        self, producer: Producer, partition: int | None, tell: Callable[[list[Delivered]], None]
    ) -> None:
        """Sends all values up to the first damage in the file."""
        has_time = _is_event(self._target.schema)
        start = prefix(self._target.id)
        for body in self._bodies():
            if body is None:
                # A file goes out in large batches; what comes from a pipe is not kept waiting.
                if not select.select([self._stream], [], [], _LINGER_SECONDS)[0]:
                    tell(producer.flush())
                continue
            message = start + body
            timestamp = read_long(message, PREFIX_SIZE)[0] if has_time else -1
            batches = producer.send(
                message, partition=partition, timestamp=timestamp if timestamp >= 0 else None
            )
            if batches:
                tell(batches)
        tell(producer.flush())

    def _bodies(self) -> Iterator[bytes | None]:
        """The bodies in the target's schema."""
        value_number = 0
        try:
            for body in self._file.bodies():
                if body is None:
                    yield None
                    continue
                value_number += 1
                try:
                    converted_body = self._conversion.converted(body)
                except BadMessage as error:
                    self._skipped.add(f"value {value_number:,}", error)
                else:
                    yield converted_body
        except BadAvroFile as error:
            self._damage = error


def _is_event(schema: AvroSchema) -> bool:
    try:
        check_event_schema(schema)
    except NotAnEvent:
        return False
    return True
