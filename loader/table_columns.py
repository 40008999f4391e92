"""A table's columns: from the latest schemas of its topics, as the registry has them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader.config import HeaderColumns
from loader.decoding.columns import Columns
from loader.errors import NoSchema
from loader.tables import TableSource
from schemas.definitions.types import Record
from schemas.errors import InvalidSchema
from schemas.evolution.findings import Effort
from schemas.evolution.incompatibilities import judge
from schemas.evolution.plain_words import Side, in_words
from schemas.parsing import AvroSchema
from schemas.registry_client import RegistryClient


@dataclass(frozen=True, slots=True)
class LatestSchema:
    """The latest of one topic's."""

    subject: str
    version: int
    id: int
    schema: AvroSchema

    def __str__(self) -> str:
        return f"{self.subject}, version {self.version}"


@dataclass(frozen=True, slots=True)
class TableColumns:
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
    reader = that_reads_all(table.name, found)
    return TableColumns(
        Columns(reader.schema, header=header, with_cluster=table.with_cluster),
        reader.schema,
        {each.id: each.schema.resolved_text for each in found},
        tuple(_left_out(reader, found)),
    )


def that_reads_all(table: str, found: Sequence[LatestSchema]) -> LatestSchema:
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
    return next(iter(in_words(found, *sides)), "")


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
