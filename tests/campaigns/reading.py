"""What is really in the topic and in the landed files, read with nothing of Penstock."""

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from harness.processes.crowding import Patience
from harness.processes.server_process import http_page
from tests.campaigns.outcomes import NoRun

PATIENCE: Final = 20.0


class Record(msgspec.Struct, frozen=True):
    """One event in the log. `source` is empty and `text` its raw value if it is no event."""

    offset: int
    source: str
    seq: int
    position: int
    text: str
    time: int = -1


class DeadLetter(msgspec.Struct, frozen=True):
    """One record that a load could not decode, and put aside."""

    offset: int
    text: str


class Message(msgspec.Struct, frozen=True):
    """What any consumer sees of a record."""

    offset: int
    time: int
    value: bytes


class Row(msgspec.Struct, frozen=True):
    """One row of a landed file."""

    file: str
    source: str
    seq: int
    position: int
    offset: int
    text: str


class NotToTheEnd(NoRun):
    """The log was not read to its end: nobody answers, or not in time, or it is damaged."""


class Schemas:
    """Schemas by id, from a registry's REST interface."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[int, Any] = {}

    def of(self, number: int) -> Any:
        if number not in self._known:
            status, body = http_page(self._port, f"/schemas/ids/{number}")
            if status not in {200, 404}:
                raise NotToTheEnd("no registry says what its schemas are")
            if status == 404:
                return None
            self._known[number] = fastavro.parse_schema(json.loads(json.loads(body)["schema"]))
        return self._known[number]


def messages(
    bootstrap: str, topic: str, partition: int = 0, *, within: float = PATIENCE
) -> Iterator[Message]:
    """All that consumers see of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,  # what was flipped is not what was written
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        patience = Patience(within)
        while not patience.is_over():
            for message in consumer.consume(10_000, 0.5):
                error = message.error()
                if error is None:
                    moment = message.timestamp()[1]
                    yield Message(message.offset(), moment, message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif not error.retriable():
                    raise NotToTheEnd(error.str())
        raise NotToTheEnd(f"not within {within:g} s")
    finally:
        consumer.close()


def records(bootstrap: str, topic: str, schemas: Schemas) -> list[Record]:
    return [record_of(each, schemas) for each in messages(bootstrap, topic)]


def record_of(message: Message, schemas: Schemas) -> Record:
    offset, value = message.offset, message.value
    try:
        magic, number = struct.unpack_from(">BI", value)
        schema = schemas.of(number) if magic == 0 else None
        if schema is not None:
            event: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
            header = event["header"]
            named = header["source"], header["seq"], header["position"]
            return Record(offset, *named, event["message"], message.time)
    except (struct.error, EOFError, ValueError, KeyError, TypeError, IndexError, OverflowError):
        pass
    return Record(offset, "", -1, -1, value.decode(errors="replace"), message.time)


def landed_files(root: Path, topic: str) -> list[Path]:
    """Those that any reader sees: names that begin with `_` or `.` are not seen."""
    return sorted(
        path
        for path in (root / topic).glob("dt=*/hour=*/*.parquet")
        if not path.name.startswith(("_", "."))
    )


def rows(root: Path, topic: str) -> list[Row]:
    return [row for file in landed_files(root, topic) for row in rows_of(file)]


def rows_of(file: Path) -> list[Row]:
    """Nothing, if it cannot be read."""
    names = ("source", "seq", "position", "_offset", "message")
    try:
        table = pq.ParquetFile(file).read(columns=list(names))
    except (OSError, pa.ArrowException):
        return []
    columns = [table.column(name).to_pylist() for name in names]
    return [Row(str(file), *each) for each in zip(*columns, strict=True)]


def dead_letters(root: Path, topic: str) -> list[DeadLetter]:
    found = []
    for file in landed_files(root / "_dead", topic):
        table = pq.ParquetFile(file).read(columns=["offset", "value"])
        columns = [table.column(name).to_pylist() for name in ("offset", "value")]
        for offset, value in zip(*columns, strict=True):
            found.append(DeadLetter(offset, (value or b"").decode(errors="replace")))
    return found
