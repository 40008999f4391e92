"""Registers tables in the Hive metastore that Spark is configured for, so that they have a name.

Tables are external: the metastore knows the location of files, their columns, and the hours, and
owns none of it. Registrations are only extended: new columns are added, others widened, and nothing
is dropped. Each time, all missing hours are added, whatever happened before, and all hours of days
without a registered hour.

Tables are Spark data source tables; other programs can read those with only Hive's types. Hive's
names have letters, digits and `_`: any other character of a table's name becomes `_`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from loader.errors import LoaderError
from loader.rewriting.files import columns_of
from loader.rewriting.row_format import RowFormat
from loader.store.store import Store
from loader.values.tables import Hour, hour_folder, hour_in_folder

FOLDERS: Final = ("dt", "hour")
DAYS_AT_ONCE: Final = 4  # added by one statement: Spark sends 100 partitions in one call


def register(
    spark: SparkSession,
    database: str,
    table: str,
    *,
    store: Store,
    target: RowFormat,
    hours: Iterable[Hour],
) -> None:
    """Registers the table in its current form, and a partition for each of these hours that has a
    folder.

    The database must exist. Raises LoaderError if another table has the name; Spark's exceptions
    pass through.
    """
    name = f"`{database}`.`{hive_name(table)}`"
    columns, location = columns_of(target), store.uri(table)
    if not spark.catalog.tableExists(name):
        _create(spark, name, columns, location, target)
    else:
        _check_is_ours(spark, name, location, target)
        _bring_up_to_date(spark, name, columns)
    registered_partitions = {row[0] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}
    _add_hours(spark, name, list(_new_folders(store, table, hours, registered_partitions)))


def hive_name(table: str) -> str:
    return re.sub(r"\W", "_", table, flags=re.ASCII).lower()


def _create(
    spark: SparkSession, name: str, columns: StructType, location: str, target: RowFormat
) -> None:
    folders = ", ".join(f"{folder} STRING" for folder in FOLDERS)
    spark.sql(
        f"CREATE TABLE {name} ({_in_sql(spark, columns)}, {folders}) USING {target.format}"
        f" PARTITIONED BY ({', '.join(FOLDERS)}) LOCATION {_quoted(location)}"
    )


def _check_is_ours(spark: SparkSession, name: str, location: str, target: RowFormat) -> None:
    (row,) = spark.sql(f"DESCRIBE EXTENDED {name} AS JSON").collect()
    description = json.loads(row[0])
    registered_at, provider = description.get("location", ""), description.get("provider", "")
    if _place(registered_at) != _place(location):
        raise LoaderError(
            f"Hive: {name} is a different table, at {registered_at} instead of {location}"
        )
    if (description.get("type"), provider.lower()) != ("EXTERNAL", target.format.value):
        raise LoaderError(
            f"Hive: {name} is not an external table of format {target.format}: drop it in Hive, and"
            " the next load registers it again"
        )


def _bring_up_to_date(spark: SparkSession, name: str, columns: StructType) -> None:
    """Changes the columns in one step, which keeps all partitions. No SQL statement can do this."""
    registered_columns = [
        column for column in spark.table(name).schema if column.name not in FOLDERS
    ]
    types = {column.name.lower(): column.dataType for column in registered_columns}
    if all(types.get(column.name.lower()) == column.dataType for column in columns):
        return
    names = {column.name.lower() for column in columns}
    former_columns = [column for column in registered_columns if column.name.lower() not in names]
    state: Any = spark._jsparkSession.sessionState()
    table = state.sqlParser().parseTableIdentifier(name)
    state.catalog().alterTableDataSchema(
        table, _in_jvm(spark, StructType([*columns, *former_columns]))
    )
    spark.catalog.refreshTable(name)


def _new_folders(store: Store, table: str, hours: Iterable[Hour], known: set[str]) -> Iterator[str]:
    """Folders that exist and are not registered.

    Hours are added by whole days: if a day is registered, only new hours of it can be missing; if
    not, all of them may be.
    """
    days_known = {folder.partition("/")[0] for folder in known}
    days = {folder.partition("/")[0] for folder in set(map(hour_folder, hours)) - known}
    days |= {entry.name for entry in store.list(table) if entry.is_folder} - days_known
    for day in sorted(days):
        folders = (f"{day}/{entry.name}" for entry in store.list(f"{table}/{day}"))
        yield from (folder for folder in folders if folder not in known and _is_hour(folder))


def _is_hour(folder: str) -> bool:
    try:
        return hour_folder(hour_in_folder(folder)) == folder
    except ValueError:
        return False


def _add_hours(spark: SparkSession, name: str, folders: Sequence[str]) -> None:
    folders_by_day = [
        list(group) for _, group in groupby(folders, lambda folder: folder.partition("/")[0])
    ]
    for start in range(0, len(folders_by_day), DAYS_AT_ONCE):
        partitions = " ".join(
            _partition(folder)
            for day in folders_by_day[start : start + DAYS_AT_ONCE]
            for folder in day
        )
        spark.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS {partitions}")


def _partition(folder: str) -> str:
    values = (part.partition("=") for part in folder.split("/"))
    return f"PARTITION ({', '.join(f'{key}={_quoted(value)}' for key, _, value in values)})"


def _in_sql(spark: SparkSession, columns: StructType) -> str:
    return str(_in_jvm(spark, columns).toDDL())


def _in_jvm(spark: SparkSession, columns: StructType) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json())


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _place(uri: str) -> tuple[str, str, str]:
    """Normalizes URIs: Hadoop writes `file:/a` where others write `file:///a`."""
    parts = urlsplit(uri)
    return parts.scheme, parts.netloc, parts.path.rstrip("/")
