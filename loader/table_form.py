"""In which form a table's rows are kept, from its first file to its last. Pure.

Files are not rewritten when a schema changes. So what was ever a column of a table remains one, as
wide as any of its files needs it (decoding/widening.py): null, to readers, where a file lacks it.
What cannot be widened, another format, or another place for the header takes another table.

Of a table in Parquet, the columns stand in `{table}/_common_metadata` too, as a footer without
rows: Spark looks there first, so that a plain read sees all of them. Others pass over the file.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow.parquet as pq

from loader.config import FileFormat
from loader.decoding.columns import Columns
from loader.decoding.spark_types import columns_of_spark, spark_json
from loader.decoding.widening import CannotWiden, widened
from loader.errors import LoaderError
from loader.manifests import Manifest, Marker

COMMON_METADATA: Final = "_common_metadata"

_WAY_OUT: Final = "load its topics into another table, by `tables:`"


@dataclass(frozen=True, slots=True)
class TableForm:
    columns: str  # as Spark's JSON: all that there ever were
    format: FileFormat
    header: str  # where its fields stand; empty: events have none


def form_of(latest: Manifest | None) -> TableForm | None:
    """None of a table that was never loaded."""
    if latest is None:
        return None
    return TableForm(latest.schema, FileFormat(latest.format), latest.header)


def check_format(table: str, former: TableForm | None, format_: FileFormat) -> None:
    """Raises LoaderError if files of another format are there."""
    if former is not None and former.format is not format_:
        raise LoaderError(
            f"table {table}: its files are kept as {former.format}, and cannot be joined by others:"
            f" set `format: {former.format}`, or, for `format: {format_}`, {_WAY_OUT}"
        )


def next_form(
    table: str, former: TableForm | None, columns: Columns, format_: FileFormat
) -> TableForm:
    """With files of these columns beside those that are there. Raises LoaderError if nobody could
    read both."""
    header = columns.header.value if columns.has_header else ""
    if former is None:
        return TableForm(columns.spark_json, format_, header)
    check_format(table, former, format_)
    if former.header and header and former.header != header:
        raise LoaderError(
            f"table {table}: the header's fields are {former.header} in its files: set"
            f" `header: {former.header}`, or, for `header: {header}`, {_WAY_OUT}"
        )
    try:
        together = widened(columns_of_spark(former.columns), columns.arrow)
    except CannotWiden as error:
        raise LoaderError(
            f"table {table}: column `{error.column}` is {error.former} in its files, and"
            f" {error.latest} in the latest schema, which nobody could read as one column:"
            f" {_WAY_OUT}, or register a schema that keeps it"
        ) from error
    return TableForm(spark_json(together), format_, header or former.header)


def in_form(manifest: Manifest, form: TableForm, former: TableForm | None) -> Manifest:
    """The manifest of a run whose rows are kept so."""
    return msgspec.structs.replace(
        manifest,
        schema=form.columns,
        format=form.format.value,
        header=form.header,
        markers=(*_columns_marker(manifest.table, form, former), *manifest.markers),
    )


def _columns_marker(table: str, form: TableForm, former: TableForm | None) -> Iterator[Marker]:
    changed = former is None or former.columns != form.columns
    if changed and form.format is FileFormat.PARQUET:
        footer = io.BytesIO()
        pq.write_metadata(columns_of_spark(form.columns), footer, store_schema=False)
        yield Marker(path=f"{table}/{COMMON_METADATA}", data=footer.getvalue())
