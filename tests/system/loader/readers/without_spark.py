"""Reads tables with a program other than Spark, in a Python that has it and not our code.

`… READER`, with the tables as JSON on stdin; prints what came of it as JSON.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import dataset, parquet
from pyiceberg.catalog.sql import SqlCatalog

Rows = list[dict[str, Any]]
Way = Callable[[str, str], Rows]


def columns_of(table: str, folder: str) -> pa.Schema:
    """Those of the table, with the hour's if the folder is the table's."""
    schema = parquet.read_schema(f"{table}/_common_metadata")
    for part in ("dt", "hour") if folder == table else ():
        schema = schema.append(pa.field(part, pa.string()))
    return schema


def files_in(folder: str) -> str:
    return f"{folder}/**/part-*.parquet"


def arrow_plain(table: str, folder: str) -> Rows:
    return list(parquet.read_table(folder).to_pylist())


def arrow_dataset(table: str, folder: str) -> Any:
    return dataset.dataset(folder, schema=columns_of(table, folder), partitioning="hive")


def arrow_schema(table: str, folder: str) -> Rows:
    return list(arrow_dataset(table, folder).to_table().to_pylist())


def pandas_plain(table: str, folder: str) -> Rows:
    return list(pd.read_parquet(folder).to_dict("records"))


def pandas_schema(table: str, folder: str) -> Rows:
    return list(pd.read_parquet(folder, schema=columns_of(table, folder)).to_dict("records"))


def polars_plain(table: str, folder: str) -> Rows:
    return list(pl.scan_parquet(files_in(folder)).collect().to_dicts())


def polars_dataset(table: str, folder: str) -> Rows:
    return list(pl.scan_pyarrow_dataset(arrow_dataset(table, folder)).collect().to_dicts())


def duckdb_rows(folder: str, options: str = "") -> Rows:
    answer = duckdb.sql(f"SELECT * FROM read_parquet('{files_in(folder)}'{options})")
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def duckdb_plain(table: str, folder: str) -> Rows:
    return duckdb_rows(folder)


def duckdb_union(table: str, folder: str) -> Rows:
    return duckdb_rows(folder, ", union_by_name=true")


def iceberg_files(table: str, folder: str) -> Rows:
    with tempfile.TemporaryDirectory() as scratch:
        catalog = SqlCatalog("tests", uri="sqlite:///:memory:", warehouse=f"file://{scratch}")
        catalog.create_namespace("logs")
        made = catalog.create_table("logs.t", schema=columns_of(table, ""))
        made.add_files(sorted(map(str, Path(folder).rglob("part-*.parquet"))))
        return list(made.scan().to_arrow().to_pylist())


READERS: dict[str, dict[str, Way]] = {
    "pyarrow": {"yes": arrow_plain, "columns": arrow_schema},
    "pandas": {"yes": pandas_plain, "columns": pandas_schema},
    "polars": {"yes": polars_plain, "columns": polars_dataset},
    "duckdb": {"yes": duckdb_plain, "by name": duckdb_union},
    "pyiceberg": {"yes": iceberg_files},
}


def value_of(value: Any) -> Any:
    """A value as JSON: a number that is missing is null, and a decimal a text."""
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return None if value is None or value is pd.NA or value != value else value  # noqa: PLR0124


def main(reader: str) -> None:
    outcome: dict[str, dict[str, Any]] = {}
    for name, (table, folder, columns) in json.load(sys.stdin).items():
        ways = outcome[name] = {}
        for way, read in READERS[reader].items():
            try:
                ways[way] = [
                    {column: value_of(row[column]) for column in columns}
                    for row in read(table, folder)
                ]
            except Exception as error:  # noqa: BLE001  whatever a reader raises
                ways[way] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1])
