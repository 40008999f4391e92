"""Java's Avro, as Spark, Hive and Hadoop have it, reads our container files, and we read Java's."""

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from penstock.topics.consume import AVRO_CODECS
from schemas.envelope import PREFIX_SIZE, Encoder
from schemas.parsing import parse
from tests.penstock.topics.avro_files.made import bodies_of, made
from tests.schemas.events import EVENTS, SCHEMAS

# Java orders the fields of its JSON as the schema does.
LINE = """{"type":"record","name":"Line","namespace":"shop","fields":[
    {"name":"number","type":"long"},{"name":"text","type":"string"}]}"""
LINES = [{"number": number, "text": f"line {number} ü" * 3} for number in range(2000)]


def bodies(name: str) -> list[bytes]:
    encode = Encoder(SCHEMAS[name], 1).encode
    return [encode(EVENTS[name])[PREFIX_SIZE:]] * 3


def java_reads(spark: SparkSession, path: Path) -> list[Any]:
    """Each value as Java prints it, which is JSON."""
    java: Any = spark._jvm
    reader: JavaObject = java.org.apache.avro.file.DataFileReader(
        java.java.io.File(str(path)), java.org.apache.avro.generic.GenericDatumReader()
    )
    read = []
    while reader.hasNext():
        read.append(json.loads(reader.next().toString()))
    reader.close()
    return read


@pytest.mark.slow
@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_java_reads_ours(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    path = tmp_path / "lines.avro"
    schema = parse(LINE)
    encode = Encoder(schema, 1).encode
    path.write_bytes(b"".join(made(schema, [encode(each)[PREFIX_SIZE:] for each in LINES], codec)))
    assert java_reads(spark, path) == LINES


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LogLine", "Ledger"])
def test_java_reads_events(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "events.avro"
    path.write_bytes(b"".join(made(SCHEMAS[name], bodies(name), "deflate")))
    assert java_reads(spark, path) == [EVENTS[name]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_javas_are_read(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    ours, javas = tmp_path / "ours.avro", tmp_path / "javas.avro"
    of_schema = SCHEMAS["Everything"]
    ours.write_bytes(b"".join(made(of_schema, bodies("Everything"))))
    java: Any = spark._jvm
    avro = java.org.apache.avro
    reader = avro.file.DataFileReader(
        java.java.io.File(str(ours)), avro.generic.GenericDatumReader()
    )
    writer = avro.file.DataFileWriter(avro.generic.GenericDatumWriter())
    writer.setCodec(avro.file.CodecFactory.fromString(codec))
    writer.create(reader.getSchema(), java.java.io.File(str(javas)))
    while reader.hasNext():
        writer.append(reader.next())
    writer.close()
    reader.close()
    assert bodies_of(javas.read_bytes()) == bodies("Everything")
