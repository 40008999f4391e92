"""`penstock produce --avro-file`: the values of a container file into a topic, as events.

They are sent as they lie in the file, behind the five bytes that name their schema, which is a
version of the topic's subject by then. With another version (`--schema-version`) each is brought
into that; what cannot be is named and left out, and the command then ends with exit code 1. An
event's own time becomes the record's timestamp.
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
from penstock.topics.avro_files.skipped_values import LeftOut
from penstock.topics.avro_files.topic_schema import version_for, version_of
from schemas.bodies.checking import read_long
from schemas.conversion import Conversion
from schemas.envelope import PREFIX_SIZE, prefix
from schemas.errors import BadMessage, NotAnEvent
from schemas.event_schemas import check_event_schema
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

_LINGER_SECONDS: Final = 0.01


class FileSending:
    """One run of the command."""

    def __init__(self, topic: str, path: Path, stream: BufferedReader) -> None:
        """Failed if it is no container file, or none that can be used."""
        self._topic = topic
        self._path = path
        self._stream = stream
        try:
            self._file = AvroFile(stream)
        except BadAvroFile as error:
            raise Failed(f"{path}: {error}") from None
        self._left_out = LeftOut()
        self._damage: BadAvroFile | None = None

    def find_schema(self, client: RegistryClient, wanted: Which | None) -> None:
        """Registers the file's own, if no version was named and the topic does not have it."""
        schema = self._file.schema
        if wanted is None:
            self._target = version_for(client, self._topic, self._path, schema)
        else:
            self._target = version_of(client, self._topic, wanted)
        if self._target.is_new:
            _, subject, version, schema_id, _ = self._target
            said = f"penstock: registered {subject}: version {version}, id {schema_id}"
            click.echo(said, err=True)
        self._conversion = Conversion(schema, self._target.schema)

    @property
    def document(self) -> dict[str, Any]:
        return {"left_out": self._left_out.count, "schema": self._target.document}

    def what_is_wrong(self, sent: int) -> str:
        """Nothing, if all that is in the file was sent."""
        if self._damage is not None:
            return f"{self._path}: {self._damage}; {sent:,} values before it were sent"
        if left_out := self._left_out.count:
            return f"{left_out:,} values of {self._path} were not sent, {sent:,} were"
        return ""

    def run(
        self, producer: Producer, partition: int | None, tell: Callable[[list[Delivered]], None]
    ) -> None:
        """Sends all that can be read, up to the damage if there is one."""
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
            sent = producer.send(
                message, partition=partition, timestamp=timestamp if timestamp >= 0 else None
            )
            if sent:
                tell(sent)
        tell(producer.flush())

    def _bodies(self) -> Iterator[bytes | None]:
        """As the target has them."""
        number = 0
        try:
            for body in self._file.bodies():
                if body is None:
                    yield None
                    continue
                number += 1
                try:
                    converted = self._conversion.converted(body)
                except BadMessage as error:
                    self._left_out.add(f"value {number:,}", error)
                else:
                    yield converted
        except BadAvroFile as error:
            self._damage = error


def _is_event(schema: AvroSchema) -> bool:
    try:
        check_event_schema(schema)
    except NotAnEvent:
        return False
    return True
