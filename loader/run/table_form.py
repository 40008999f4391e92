"""A table's columns, from the latest schemas of its topics; and in which form its rows are kept,
from its first file to its last.

Files are not rewritten when a schema changes. So what was ever a column of a table remains one, as
wide as any of its files needs it (decoding/widening.py): null, to readers, where a file lacks it.
What cannot be widened, another format, or another place for the header takes another table.

Of a table in Parquet, the columns stand in `{table}/_common_metadata` too, as a footer without
rows: Spark looks there first, so that a plain read sees all of them. Others pass over the file.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow.parquet as pq

from loader.config import FileFormat, HeaderColumns
from loader.decoding.columns import Columns
from loader.decoding.spark_types import columns_of_spark, spark_json
from loader.decoding.widening import CannotWiden, widened
from loader.errors import LoaderError, NoSchema
from loader.manifests import Manifest, Marker
from loader.tables import TableSource
from schemas.definitions.types import Record
from schemas.errors import InvalidSchema
from schemas.evolution.explanations import Side, explanations
from schemas.evolution.findings import Effort
from schemas.evolution.incompatibilities import judge
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient

COMMON_METADATA: Final = "_common_metadata"
_WAY_OUT: Final = "load its topics into another table, by `tables:`"


class LatestSchema(msgspec.Struct, frozen=True):
    """The latest of one topic's."""

    subject: str
    version: int
    id: int
    schema: AvroSchema

    def __str__(self) -> str:
        return f"{self.subject}, version {self.version}"


class TableColumns(msgspec.Struct, frozen=True):
    """What rows are resolved to, and the writers' schemas that are known beforehand."""

    columns: Columns
    schema: AvroSchema
    writers: dict[int, str]
    warnings: tuple[str, ...] = ()


def table_columns(
    registry: RegistryClient, table: TableSource, header: HeaderColumns
) -> TableColumns:
    """Raises NoSchema."""
    found = list(_latest(registry, table))
    if not found:
        topics = ", ".join(source.topic for source in table.topics)
        raise NoSchema(
            f"table {table.name}: the registry has no schema for {topics} "
            f"(subject {table.topics[0].topic}-value)"
        )
    reader = common_reader(table.name, found)
    return TableColumns(
        Columns(reader.schema, header=header, with_cluster=table.with_cluster),
        reader.schema,
        {each.id: each.schema.resolved_text for each in found},
        tuple(_left_out(reader, found)),
    )


def common_reader(table: str, found: Sequence[LatestSchema]) -> LatestSchema:
    """The newest with which the others can be read. Raises NoSchema if there is none."""
    newest_first = sorted(found, key=lambda each: -each.id)
    refusals: list[str] = []
    for reader in newest_first:
        said = (_unreadable(reader, each) for each in newest_first if each.id != reader.id)
        refusal = next((each for each in said if each), "")
        if not refusal:
            return reader
        refusals.append(refusal)
    raise NoSchema(
        f"table {table}: none of its topics' latest schemas can read all the others;"
        f" of the newest, {refusals[0]}"
    )


def _latest(registry: RegistryClient, table: TableSource) -> Iterator[LatestSchema]:
    for source in table.topics:
        subject = f"{source.topic}-value"
        latest = registry.latest(subject)
        if latest is None:
            continue
        try:
            schema = registry.resolved(latest)
        except InvalidSchema as error:
            raise NoSchema(f"{subject}, version {latest.version}: {error}") from None
        yield LatestSchema(subject, latest.version, latest.id, schema)


def _unreadable(reader: LatestSchema, writer: LatestSchema) -> str:
    """Why, in a sentence; nothing if it can be read."""
    found = judge(reader.schema.type, writer.schema.type, Effort())
    sides = Side(str(reader), is_new=True), Side(str(writer))
    return next(iter(explanations(found, *sides)), "")


def _left_out(reader: LatestSchema, found: Sequence[LatestSchema]) -> Iterator[str]:
    """What events of other topics have, and rows will not."""
    if not isinstance(reader.schema.type, Record):
        return
    known = {name for field in reader.schema.type.fields for name in (field.name, *field.aliases)}
    for each in found:
        if isinstance(each.schema.type, Record):
            fields = [field.name for field in each.schema.type.fields if field.name not in known]
            if fields:
                yield (
                    f"{', '.join(fields)} of {each} cannot be columns, as {reader}, which all are"
                    " read with, has no such fields"
                )


class TableForm(msgspec.Struct, frozen=True):
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
