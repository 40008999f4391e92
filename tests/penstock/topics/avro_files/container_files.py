"""Container files as tests make and read them: ours in memory, and by the libraries of others."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro
from avro.datafile import DataFileReader
from avro.io import DatumReader

from penstock.topics.avro_files.block_reader import AvroFile
from penstock.topics.avro_files.consume_to_file import BlockWriter
from schemas.envelope import PREFIX_SIZE, Encoder
from schemas.parsing import AvroSchema

WITHOUT_FASTAVRO = {"zstandard"}  # for which it wants one more package


class Kept:
    """What was written, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def __enter__(self) -> "Kept":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def publish(self) -> None:
        pass


def made(schema: AvroSchema, bodies: Iterable[bytes], codec: str = "null") -> list[bytes]:
    """The header of a container file, and each of its blocks."""
    kept = Kept()
    writer = BlockWriter(kept, schema, codec)
    for body in bodies:
        writer.append(body)
    writer.flush()
    return kept.pieces


def encoded(schema: AvroSchema, *events: Any) -> list[bytes]:
    encode = Encoder(schema, 1).encode
    return [encode(event)[PREFIX_SIZE:] for event in events]


def opened(data: bytes) -> AvroFile:
    return AvroFile(io.BufferedReader(io.BytesIO(data)))


def bodies_of(data: bytes) -> list[bytes]:
    return [each for each in opened(data).bodies() if each is not None]


def apache_reads(path: Path) -> list[Any]:
    with path.open("rb") as file, DataFileReader(file, DatumReader()) as reader:
        return list(reader)


def fastavro_reads(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))
