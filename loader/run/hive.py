"""Tables in a Hive metastore, the one that Spark is configured for, so that they have a name.

Each is external: the metastore knows where the files are, what their columns are, and which hours
there are, and owns none of it. What is registered stays: columns that are new are added, others get
wider, and nothing is ever dropped. Every time, all hours are added that should be known and are not
yet, whatever came between before; and all hours of days of which none is known.

Tables are Spark's data source tables: other programs read those whose types are all Hive's.
A name of Hive's has letters, digits and `_`: whatever else is in a table's name becomes `_`.
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
from loader.tables import Hour, hour_folder, hour_in_folder

FOLDERS: Final = ("dt", "hour")
DAYS_AT_ONCE: Final = 4  # that one statement adds: Spark tells a metastore of 100 hours at a time


def register(
    spark: SparkSession,
    database: str,
    table: str,
    *,
    store: Store,
    target: RowFormat,
    hours: Iterable[Hour],
) -> None:
    """Makes the metastore know the table as it is now, and those of these hours that have a folder.

    The database must be there. Raises LoaderError if another table has the name; what Spark raises
    passes through.
    """
    name = f"`{database}`.`{hive_name(table)}`"
    columns, location = columns_of(target), store.uri(table)
    if not spark.catalog.tableExists(name):
        _create(spark, name, columns, location, target)
    else:
        _check_ours(spark, name, location, target)
        _bring_up_to_date(spark, name, columns)
    known = {row[0] for row in spark.sql(f"SHOW PARTITIONS {name}").collect()}
    _add_hours(spark, name, list(_unknown(store, table, hours, known)))


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


def _check_ours(spark: SparkSession, name: str, location: str, target: RowFormat) -> None:
    (row,) = spark.sql(f"DESCRIBE EXTENDED {name} AS JSON").collect()
    known = json.loads(row[0])
    there, provider = known.get("location", ""), known.get("provider", "")
    if _place(there) != _place(location):
        raise LoaderError(f"Hive: {name} is another table: it lies at {there}, not at {location}")
    if (known.get("type"), provider.lower()) != ("EXTERNAL", target.format.value):
        raise LoaderError(
            f"Hive: {name} is registered otherwise than as an external table of {target.format}:"
            " drop it there, and it is registered anew"
        )


def _bring_up_to_date(spark: SparkSession, name: str, columns: StructType) -> None:
    """In one step, and whatever partitions there are stay. No statement of SQL can do that."""
    registered = [each for each in spark.table(name).schema if each.name not in FOLDERS]
    types = {each.name.lower(): each.dataType for each in registered}
    if all(types.get(each.name.lower()) == each.dataType for each in columns):
        return
    names = {each.name.lower() for each in columns}
    former = [each for each in registered if each.name.lower() not in names]
    state: Any = spark._jsparkSession.sessionState()
    table = state.sqlParser().parseTableIdentifier(name)
    state.catalog().alterTableDataSchema(table, _in_jvm(spark, StructType([*columns, *former])))
    spark.catalog.refreshTable(name)


def _unknown(store: Store, table: str, hours: Iterable[Hour], known: set[str]) -> Iterator[str]:
    """Folders that are there and not known yet.

    Hours are added by whole days. So where a day is known, only those of its hours may be missing
    that have come since; and where none of it is, it never was told.
    """
    days_known = {folder.partition("/")[0] for folder in known}
    days = {folder.partition("/")[0] for folder in set(map(hour_folder, hours)) - known}
    days |= {entry.name for entry in store.list(table) if entry.is_folder} - days_known
    for day in sorted(days):
        folders = (f"{day}/{entry.name}" for entry in store.list(f"{table}/{day}"))
        yield from (each for each in folders if each not in known and _is_hour(each))


def _is_hour(folder: str) -> bool:
    try:
        return hour_folder(hour_in_folder(folder)) == folder
    except ValueError:
        return False


def _add_hours(spark: SparkSession, name: str, folders: Sequence[str]) -> None:
    by_day = [list(mine) for _, mine in groupby(folders, lambda each: each.partition("/")[0])]
    for at in range(0, len(by_day), DAYS_AT_ONCE):
        partitions = " ".join(
            _partition(each) for day in by_day[at : at + DAYS_AT_ONCE] for each in day
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
    """Hadoop writes `file:/a` where others write `file:///a`."""
    parts = urlsplit(uri)
    return parts.scheme, parts.netloc, parts.path.rstrip("/")
