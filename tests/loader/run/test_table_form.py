"""Whose schema says what a table's columns are, and in which form it is kept as that grows."""

import io
import json

import msgspec
import pyarrow.parquet as pq
import pytest

from loader.config import FileCompression, FileFormat, HeaderColumns
from loader.decoding.columns import Columns
from loader.errors import LoaderError, NoSchema, SchemaDeleted
from loader.rewriting.files import columns_of
from loader.rewriting.row_format import RowFormat
from loader.run.table_form import (
    LatestSchema,
    TableForm,
    check_format,
    common_reader,
    form_of,
    in_form,
    next_form,
    renamings,
    table_columns,
)
from loader.values.manifests import VERSION, Manifest, Marker, RunKind
from loader.values.tables import SourceTopic, TableSource
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.loader.application import VIEW, Json, event_schema

FIRST = Manifest(
    version=VERSION, run=1, kind=RunKind.LOAD, table="t", committed=0, loader="me", topics=()
)


def columns(*fields: Json, header: HeaderColumns = HeaderColumns.FLAT) -> Columns:
    return Columns(parse(event_schema(fields)), header=header, with_cluster=False)


def field(name: str, type_: str) -> Json:
    return {"name": name, "type": type_}


def no_header(*fields: Json) -> Columns:
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return Columns(parse(text), header=HeaderColumns.FLAT, with_cluster=False)


def form(of: Columns, former: TableForm | None = None) -> TableForm:
    return next_form("t", former, of, FileFormat.PARQUET, "t-value, version 2")


def test_the_union_of_all_columns_as_a_footer_beside_the_files() -> None:
    first = form(columns(field("a", "int"), field("gone", "string")))
    manifest = in_form(FIRST, first, None)
    assert form_of(manifest) == first
    second = form(columns(field("a", "long"), field("new", "string")), first)
    late = Marker(path="t/x/_LATE-1", content="{}")

    found = in_form(msgspec.structs.replace(manifest, markers=(late,)), second, first)

    assert form_of(found) == second
    marker, other = msgspec.json.decode(msgspec.json.encode(found), type=Manifest).markers
    assert (marker.path, other) == ("t/_common_metadata", late)
    assert other.written == b"{}"
    footer = pq.read_schema(io.BytesIO(marker.written))
    assert [str(each.type) for each in footer][:2] == ["int64", "string"]
    assert [*footer.names[:2], footer.names[-1]] == ["a", "new", "gone"]
    assert form(columns(field("a", "int")), second).columns != second.columns  # another order
    assert form(columns(field("a", "int"), field("new", "string")), second) == second
    assert in_form(found, second, second).markers == found.markers
    # Other formats have no footer, and a table that was never loaded has no form.
    orc = next_form("t", None, columns(field("a", "int")), FileFormat.ORC, "t-value, version 1")
    assert in_form(FIRST, orc, None).markers == ()
    assert form_of(None) is None
    check_format("t", None, FileFormat.ORC)


def test_a_form_that_cannot_be_kept_is_named_with_what_to_do() -> None:
    said = r"table t: column `a` is long in its files, but string in the latest schema \(t-v"
    with pytest.raises(LoaderError, match=said):
        form(columns(field("a", "string")), form(columns(field("a", "long"))))
    with pytest.raises(LoaderError, match=r"in format parquet.*`format: orc`.*`tables:`"):
        check_format("t", form(columns()), FileFormat.ORC)
    nested = columns(header=HeaderColumns.NESTED)
    with pytest.raises(LoaderError, match=r"`header: flat`, or, for `header: nested`.*`tables:`"):
        form(nested, form(columns()))


def test_names_of_fields_are_kept_with_the_columns() -> None:
    renamed = {"name": "customer", "type": "string", "aliases": ["user"]}
    first = form(columns(field("user", "string"), field("host", "int")))
    assert '{"metadata":{"names":["host"]},"name":"host_"' in first.columns
    second = form(columns(renamed, field("host", "int")), first)
    names = '{"metadata":{"names":["customer","user"]},"name":"user","nullable":true'
    assert names in second.columns
    assert second.number == first.number  # files need not be rewritten
    assert [*renamings(first, second)] == ["field `customer`, formerly `user`, has column `user`"]
    assert [*renamings(second, second)] == [*renamings(None, second)] == []
    third = form(columns(field("customer", "string"), field("user", "int")), second)
    assert names in third.columns
    assert '{"metadata":{"names":["user"]},"name":"user_"' in third.columns
    assert third.number == second.number + 1
    row_format = RowFormat(FileFormat.PARQUET, FileCompression.ZSTD, third.columns)
    assert all(column.metadata == {} for column in columns_of(row_format))
    footer = pq.read_schema(io.BytesIO(in_form(FIRST, third, second).markers[0].written))
    assert footer.metadata is None
    assert {column.metadata for column in footer} == {None}


def test_a_header_may_come() -> None:
    """Whoever has none, has a column `_timestamp` instead."""
    first = form(no_header(field("a", "int")))
    assert first.header == ""

    second = form(columns(field("a", "int"), header=HeaderColumns.NESTED), first)

    assert second.header == "nested"
    assert '"_timestamp"' in second.columns
    assert form(no_header(field("a", "int")), second).header == "nested"


COUNTRY: Json = {"name": "country", "type": "string", "default": ""}
REFERER: Json = {"name": "referer", "type": "string", "default": ""}
CLUSTERS = ("dc1", "dc2", "dc3")


def latest(cluster: str, number: int, text: str) -> LatestSchema:
    return LatestSchema(f"{cluster}.views-value", 7, number, parse(text))


PLAIN = event_schema()
WITH_COUNTRY = event_schema([*VIEW, COUNTRY])
WITH_REFERER = event_schema([*VIEW, REFERER])
NEEDS_COUNTRY = event_schema([*VIEW, {"name": "country", "type": "string"}])
NEEDS_REFERER = event_schema([*VIEW, {"name": "referer", "type": "string"}])


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        ({3: PLAIN}, 3),
        ({3: PLAIN, 8: WITH_COUNTRY}, 8),
        ({8: WITH_COUNTRY, 3: PLAIN}, 8),
        ({3: PLAIN, 8: WITH_COUNTRY, 9: WITH_REFERER}, 9),
        # The newest cannot read what lacks the field.
        ({3: PLAIN, 9: NEEDS_COUNTRY}, 3),
        ({3: PLAIN, 8: WITH_COUNTRY, 9: NEEDS_COUNTRY}, 8),
    ],
)
def test_the_newest_that_reads_all_has_the_say(texts: dict[int, str], chosen: int) -> None:
    found = [
        latest(cluster, number, text)
        for cluster, (number, text) in zip(CLUSTERS, texts.items(), strict=False)
    ]
    assert common_reader("views", found).id == chosen
    of_one_schema = [latest(cluster, 3, PLAIN) for cluster in CLUSTERS]
    assert common_reader("views", of_one_schema).id == 3


def test_if_none_reads_all_two_are_named() -> None:
    found = [latest("dc1", 3, NEEDS_COUNTRY), latest("dc2", 4, NEEDS_REFERER)]
    with pytest.raises(NoSchema) as caught:
        common_reader("views", found)
    said = str(caught.value)
    assert said.startswith("table views: none of its topics' latest schemas can read")
    assert "referer" in said
    assert "data of dc1.views-value, version 7 cannot be read with dc2.views-value" in said


def test_a_deleted_schema_is_named(registry: RegistryClient, new_topic: str) -> None:
    table = TableSource(name="t", topics=(SourceTopic(topic=new_topic, cluster="dc1"),))
    subject = f"{new_topic}-value"
    for text in (WITH_COUNTRY, WITH_REFERER):
        registry.register(subject, text)
    registry.delete_subject(subject)
    with pytest.raises(SchemaDeleted, match=rf"\({subject}, version 2\)"):
        table_columns(registry, table, HeaderColumns.FLAT)
    registry.delete_subject(subject, permanent=True)
    with pytest.raises(NoSchema, match="the registry has no schema"):
        table_columns(registry, table, HeaderColumns.FLAT)


def test_fields_that_no_column_takes_are_named(registry: RegistryClient, new_topic: str) -> None:
    topics = tuple(SourceTopic(topic=f"{each}.{new_topic}", cluster=each) for each in CLUSTERS)
    table = TableSource(name=new_topic, topics=topics, with_cluster=True)
    texts = zip(topics, (WITH_COUNTRY, WITH_REFERER), strict=False)
    ids = [registry.register(f"{source.topic}-value", text) for source, text in texts]
    found = table_columns(registry, table, HeaderColumns.FLAT)
    newest = max(ids)
    other, left_out = ("dc1", "country") if newest == ids[1] else ("dc2", "referer")
    assert set(found.writers) == set(ids)
    (warning,) = found.warnings
    assert warning.startswith(f"{left_out} of {other}.{table.name}-value, version 1 will not be")
