"""The columns of files, and a comparison of the values in old and new files by Spark.

Old files are read with their own columns, new ones with the table's; so a reader's own conversion
does not hide an error. Each value of an old file is cast to the table's type, and what is null
counts as well. Rows may be in any order: the sum and the exclusive or of their hashes must be
equal.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from loader.config import FileFormat
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import are_same, fit
from loader.errors import Mismatch
from loader.rewriting.contents import footers
from loader.rewriting.files import columns_in, columns_of, read, read_lines
from loader.rewriting.groups import Footer, Group
from loader.rewriting.row_format import RowFormat
from loader.store.store import Entry, Store
from loader.values.tables import hour_folder

_NUMBER: Final = "number"
_HASH: Final = "hash"


class OldFiles(msgspec.Struct, frozen=True):
    """The footers of files by path, and their columns by the `columns` of a footer."""

    footers: Mapping[str, Footer]
    columns: Mapping[str, StructType]


def read_columns(
    session: SparkSession, store: Store, paths: Sequence[str], target: RowFormat
) -> OldFiles:
    """Reads the footers of these files, and from one file of each kind the columns. Raises Mismatch
    if these do not fit the table's columns."""
    uris = {store.uri(path): path for path in paths}
    footers_by_uri = footers(session, list(uris), target.format)
    footers_by_path = {uris[uri]: footer for uri, footer in footers_by_uri.items()}
    if target.format is FileFormat.JSON:  # lines have no columns
        return OldFiles(footers_by_path, {"": columns_of(target)})
    path_by_footer = {footer.columns: path for path, footer in footers_by_path.items()}
    columns_by_footer: dict[str, StructType] = {}
    for footer, path in path_by_footer.items():
        columns = columns_in(session, store.uri(path), target.format)
        if not _fit(columns, target):
            raise Mismatch(f"{store.uri(path)}: its columns do not fit those of the table")
        columns_by_footer[footer] = columns
    return OldFiles(footers_by_path, columns_by_footer)


def of_other_columns(
    session: SparkSession, store: Store, paths: Sequence[str], target: RowFormat
) -> list[str]:
    """Those of the files that do not have the columns of the table. Raises Mismatch."""
    files = read_columns(session, store, paths, target)
    footers_of_table = table_footers(files, target)
    return [path for path in paths if files.footers[path].columns not in footers_of_table]


def table_footers(files: OldFiles, target: RowFormat) -> set[str]:
    """The `columns` of those footers that have the columns of the table."""
    return {footer for footer, columns in files.columns.items() if has_columns(columns, target)}


def _fit(columns: StructType, target: RowFormat) -> bool:
    try:
        return fit(columns_of_spark(columns.json()), columns_of_spark(target.columns))
    except KeyError:  # a type that no table has
        return False


def has_columns(columns: StructType, target: RowFormat) -> bool:
    """Whether these are the columns of the table."""
    return are_same(columns_of_spark(columns.json()), columns_of_spark(target.columns))


def check_values(
    session: SparkSession,
    store: Store,
    groups: Sequence[tuple[Group, Entry]],
    old_files: OldFiles,
    target: RowFormat,
) -> None:
    """Checks that the new file of each group has the values of the old files. Raises Mismatch."""
    if not groups:
        return
    before, after = [], []
    for group, entry in groups:
        footers_by_path = {path: old_files.footers[path].columns for path in group.files}
        for footer in sorted(set(footers_by_path.values())):
            uris = [store.uri(path) for path, text in footers_by_path.items() if text == footer]
            columns = old_files.columns[footer]
            before.append(_hashed(session, group.number, uris, columns, target))
        uri = store.uri(entry.path)
        after.append(_hashed(session, group.number, [uri], columns_of(target), target))
    old_sums, new_sums = _sums(before), _sums(after)
    for group, entry in groups:
        if old_sums.get(group.number) != new_sums.get(group.number):
            raise Mismatch(
                f"{hour_folder(group.rewrite.hour)}: {store.uri(entry.path)} does not have the"
                f" values of the {len(group.files)} files that it replaces"
            )


def _hashed(
    session: SparkSession, number: int, uris: Sequence[str], columns: StructType, target: RowFormat
) -> DataFrame:
    if target.format is FileFormat.JSON:
        lines = read_lines(session, uris)
        hash_ = sql.xxhash64(lines.columns[0])
        return lines.select(sql.lit(number).alias(_NUMBER), hash_.alias(_HASH))
    rows = read(session, uris, target.format, columns)
    hash_ = sql.xxhash64(*_fields(lambda name: rows[f"`{name}`"], columns, columns_of(target)))
    return rows.select(sql.lit(number).alias(_NUMBER), hash_.alias(_HASH))


def _sums(frames: Sequence[DataFrame]) -> dict[int, tuple[int, ...]]:
    sums = (
        reduce(DataFrame.union, frames)
        .groupBy(_NUMBER)
        .agg(
            sql.count("*"),
            sql.sum(sql.col(_HASH).cast("decimal(20,0)")),
            sql.bit_xor(sql.col(_HASH)),
        )
    )
    return {row[0]: (int(row[1]), int(row[2]), int(row[3])) for row in sums.collect()}


def _fields(field_of: Callable[[str], Column], own: StructType, target: StructType) -> list[Column]:
    own_fields = {field.name.lower(): field for field in own.fields}
    hashes = []
    for field in target.fields:
        own_field = own_fields.get(field.name.lower())
        if own_field is None:
            nulls = sql.lit(None).cast(field.dataType)
            hashes.append(_hash(nulls, field.dataType, field.dataType))
        else:
            hashes.append(_hash(field_of(own_field.name), own_field.dataType, field.dataType))
    return hashes


def _hash(values: Column, own: DataType, target: DataType) -> Column:
    """The hash of values as the target's type, which depends on what is null in them."""
    if isinstance(own, StructType) and isinstance(target, StructType):
        parts = _fields(values.getField, own, target)
    elif isinstance(own, ArrayType) and isinstance(target, ArrayType):
        own_element, element = own.elementType, target.elementType
        parts = [sql.transform(values, lambda item: _hash(item, own_element, element))]
    elif isinstance(own, MapType) and isinstance(target, MapType):
        own_value, value = own.valueType, target.valueType
        parts = [
            sql.transform(
                sql.map_entries(values),
                lambda item: sql.xxhash64(
                    item.getField("key"), _hash(item.getField("value"), own_value, value)
                ),
            )
        ]
    else:
        parts = [values.cast(target)]
    return sql.xxhash64(values.isNull(), *parts)
