"""The columns of a table, from the latest schemas of its topics, and the format of its files.

Every column that a table ever had remains, as wide as any file needs it (decoding/widening.py), and
new files have all of them; a renamed field stays in its column (decoding/column_matching.py). Older
files get them when their hour is closed, or by a run that rewrites hours (run/table_upgrade.py);
until then readers see null where a file lacks a column. A change that cannot be widened, another
file format, or another form of the header requires another table.

For Parquet, the columns are also in `{table}/_common_metadata`, as a footer without rows: Spark
looks there first, so a plain read sees all of them. Other programs skip this file.
"""

import io
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow.parquet as pq

from loader.config import FileFormat, HeaderColumns
from loader.decoding.column_matching import renamed
from loader.decoding.columns import Columns
from loader.decoding.spark_types import columns_of_spark, table_json
from loader.decoding.table_columns import are_same
from loader.decoding.widening import CannotWiden, widened
from loader.errors import ColumnChanged, LoaderError, NoSchema, SchemaDeleted
from loader.values.manifests import Manifest, Marker
from loader.values.tables import TableSource
from schemas.definitions.types import Record
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.evolution.explanations import Side, explanations
from schemas.evolution.findings import Effort
from schemas.evolution.incompatibilities import judge
from schemas.parsing import AvroSchema
from schemas.registry_client import SUBJECT_NOT_FOUND, RegistryClient

COMMON_METADATA: Final = "_common_metadata"
_WAY_OUT: Final = "load its topics into another table, with `tables:`"


class LatestSchema(msgspec.Struct, frozen=True):
    subject: str
    version: int
    id: int
    schema: AvroSchema

    def __str__(self) -> str:
        return f"{self.subject}, version {self.version}"


class TableColumns(msgspec.Struct, frozen=True):
    """The columns of a table, the schema of its rows, and known schemas of writers."""

    columns: Columns
    schema: AvroSchema
    writers: dict[int, str]
    latest: str  # the schema's subject and version
    warnings: tuple[str, ...] = ()


def table_columns(
    registry: RegistryClient, table: TableSource, header: HeaderColumns
) -> TableColumns:
    """The columns for the latest schemas of a table's topics. Raises NoSchema."""
    schemas = list(_latest(registry, table))
    if not schemas:
        _check_deleted(registry, table)
        topics = ", ".join(source.topic for source in table.topics)
        raise NoSchema(
            f"table {table.name}: the registry has no schema for {topics} "
            f"(subject {table.topics[0].topic}-value)"
        )
    reader = common_reader(table.name, schemas)
    return TableColumns(
        Columns(reader.schema, header=header, with_cluster=table.with_cluster),
        reader.schema,
        {latest_schema.id: latest_schema.schema.resolved_text for latest_schema in schemas},
        str(reader),
        tuple(_left_out(reader, schemas)),
    )


def _check_deleted(registry: RegistryClient, table: TableSource) -> None:
    """Checks whether the schemas are missing because they were deleted. Raises SchemaDeleted."""
    for subject in (f"{source.topic}-value" for source in table.topics):
        try:
            versions = registry.versions(subject, deleted=True)
        except RegistryRefused as error:
            if error.code == SUBJECT_NOT_FOUND:
                continue
            raise
        if versions:
            raise SchemaDeleted(
                f"table {table.name}: the schema of its events was deleted"
                f" ({subject}, version {max(versions)})"
            )


def common_reader(table: str, schemas: Sequence[LatestSchema]) -> LatestSchema:
    """The newest schema that can read events of all other schemas. Raises NoSchema if there is
    none."""
    newest_schemas = sorted(schemas, key=lambda schema: -schema.id)
    refusals: list[str] = []
    for reader in newest_schemas:
        reasons = (
            _unreadable(reader, writer) for writer in newest_schemas if writer.id != reader.id
        )
        refusal = next((reason for reason in reasons if reason), "")
        if not refusal:
            return reader
        refusals.append(refusal)
    raise NoSchema(
        f"table {table}: none of its topics' latest schemas can read all the others;"
        f" the newest of them: {refusals[0]}"
    )


def _latest(registry: RegistryClient, table: TableSource) -> Iterator[LatestSchema]:
    for source in table.topics:
        subject = f"{source.topic}-value"
        latest_schema = registry.latest(subject)
        if latest_schema is None:
            continue
        try:
            schema = registry.resolved(latest_schema)
        except InvalidSchema as error:
            raise NoSchema(f"{subject}, version {latest_schema.version}: {error}") from None
        yield LatestSchema(subject, latest_schema.version, latest_schema.id, schema)


def _unreadable(reader: LatestSchema, writer: LatestSchema) -> str:
    """The reason, in a sentence; empty if the schema can be read."""
    differences = judge(reader.schema.type, writer.schema.type, Effort())
    schema_sides = Side(str(reader), is_new=True), Side(str(writer))
    return next(iter(explanations(differences, *schema_sides)), "")


def _left_out(reader: LatestSchema, schemas: Sequence[LatestSchema]) -> Iterator[str]:
    """Warnings about fields that rows will lack."""
    if not isinstance(reader.schema.type, Record):
        return
    names = {name for field in reader.schema.type.fields for name in (field.name, *field.aliases)}
    for writer in schemas:
        if isinstance(writer.schema.type, Record):
            fields = [field.name for field in writer.schema.type.fields if field.name not in names]
            if fields:
                yield (
                    f"{', '.join(fields)} of {writer} will not be columns: {reader}, with which all"
                    " events are read, has no such fields"
                )


class TableForm(msgspec.Struct, frozen=True):
    columns: str  # all that there ever were, with the names of fields, as Spark's JSON
    format: FileFormat
    header: str  # flat or nested; empty: events have none
    number: int = 1  # grows when columns change; 0: unknown, by an earlier Penstock


def form_of(latest: Manifest | None) -> TableForm | None:
    """The table's current form; None if it was never loaded."""
    if latest is None:
        return None
    return TableForm(latest.schema, FileFormat(latest.format), latest.header, latest.schema_number)


def check_format(table: str, former: TableForm | None, format_: FileFormat) -> None:
    """Checks that the table has no files of another format. Raises LoaderError."""
    if former is not None and former.format is not format_:
        raise LoaderError(
            f"table {table}: its files are in format {former.format}: set"
            f" `format: {former.format}`, or, for `format: {format_}`, {_WAY_OUT}"
        )


def next_form(
    table: str, former: TableForm | None, columns: Columns, format_: FileFormat, latest: str
) -> TableForm:
    """The form after adding files with these columns, those of the `latest` schema. Raises
    LoaderError if old and new files cannot be read together."""
    header = columns.header.value if columns.has_header else ""
    if former is None:
        return TableForm(table_json(columns.arrow), format_, header)
    check_format(table, former, format_)
    if former.header and header and former.header != header:
        raise LoaderError(
            f"table {table}: the header is {former.header} in its files: set"
            f" `header: {former.header}`, or, for `header: {header}`, {_WAY_OUT}"
        )
    try:
        widened_columns = widened(columns_of_spark(former.columns), columns.arrow)
    except CannotWiden as error:
        raise ColumnChanged(
            f"table {table}: column `{error.column}` is {error.former} in its files, but"
            f" {error.latest} in the latest schema ({latest}); these cannot be read as one column"
        ) from error
    has_changed = not are_same(widened_columns, columns_of_spark(former.columns))
    number = max(former.number, 0) + has_changed
    return TableForm(table_json(widened_columns), format_, header or former.header, max(number, 1))


def renamings(former: TableForm | None, form: TableForm) -> Iterator[str]:
    """Remarks about columns whose fields were renamed since the former form."""
    if former is not None and former.columns != form.columns:
        columns = columns_of_spark(former.columns), columns_of_spark(form.columns)
        for column, former_name, name in renamed(*columns):
            yield f"field `{name}`, formerly `{former_name}`, has column `{column}`"


def in_form(manifest: Manifest, form: TableForm, former: TableForm | None) -> Manifest:
    """The manifest of a run whose files have this form."""
    return msgspec.structs.replace(
        manifest,
        schema=form.columns,
        schema_number=form.number,
        format=form.format.value,
        header=form.header,
        markers=(*_columns_marker(manifest.table, form, former), *manifest.markers),
    )


def _columns_marker(table: str, form: TableForm, former: TableForm | None) -> Iterator[Marker]:
    has_changed = former is None or former.columns != form.columns
    if has_changed and form.format is FileFormat.PARQUET:
        footer = io.BytesIO()
        pq.write_metadata(columns_of_spark(form.columns), footer, store_schema=False)
        yield Marker(path=f"{table}/{COMMON_METADATA}", data=footer.getvalue())
