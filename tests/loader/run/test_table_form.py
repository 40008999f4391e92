"""In which form a table is kept: it grows, or the load says why not."""

import io
import json

import msgspec
import pyarrow.parquet as pq
import pytest

from loader.config import FileFormat, HeaderColumns
from loader.decoding.columns import Columns
from loader.errors import LoaderError
from loader.manifests import VERSION, Manifest, Marker, RunKind
from loader.run.table_form import TableForm, check_format, form_of, in_form, next_form
from schemas.parsing import parse
from tests.loader.application import Json, event_schema

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
    return next_form("t", former, of, FileFormat.PARQUET)


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


def test_other_formats_have_no_footer() -> None:
    kept = next_form("t", None, columns(field("a", "int")), FileFormat.ORC)
    assert in_form(FIRST, kept, None).markers == ()


def test_a_table_that_was_never_loaded_has_no_form() -> None:
    assert form_of(None) is None
    check_format("t", None, FileFormat.ORC)


def test_a_type_that_cannot_be_widened_names_column_and_types() -> None:
    with pytest.raises(
        LoaderError,
        match=r"table t: column `a` is long in its files, and string in the latest .* `tables:`",
    ):
        form(columns(field("a", "string")), form(columns(field("a", "long"))))


def test_another_format() -> None:
    with pytest.raises(LoaderError, match=r"kept as parquet.*`format: orc`.*`tables:`"):
        check_format("t", form(columns()), FileFormat.ORC)


def test_another_place_for_the_header() -> None:
    nested = columns(header=HeaderColumns.NESTED)
    with pytest.raises(LoaderError, match=r"`header: flat`, or, for `header: nested`.*`tables:`"):
        form(nested, form(columns()))


def test_a_header_may_come() -> None:
    """Whoever has none, has a column `_timestamp` instead."""
    first = form(no_header(field("a", "int")))
    assert first.header == ""

    second = form(columns(field("a", "int"), header=HeaderColumns.NESTED), first)

    assert second.header == "nested"
    assert '"_timestamp"' in second.columns
    assert form(no_header(field("a", "int")), second).header == "nested"
