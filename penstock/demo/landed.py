"""The numbers of the events in the warehouse, read from its files as any reader of Parquet would.

Nothing is asked of loader, manifests or ledger: what counts is what is there. Files whose names
begin with `_` or `.` are not data, by Hadoop's convention.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet

from penstock.demo.arrivals import NO_NUMBER
from penstock.demo.samples import NUMBER_IN_TEXT, Sample

_IN_TEXT: Final = re.compile(NUMBER_IN_TEXT)


def landed_files(table: Path) -> list[Path]:
    """The table's data files, in the order of their names."""
    return sorted(path for path in table.glob("dt=*/hour=*/*.parquet") if path.name[0] not in "_.")


def landed_numbers(warehouse: Path, sample: Sample) -> Iterator[int]:
    """Of each row, in the order of the files. OSError or ArrowException if one cannot be read."""
    for path in landed_files(warehouse / sample.name):
        column = "number" if sample.typed else "message"
        # Not a dataset: that would make columns of the folders' names.
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[column]):
                yield from map(number_of, batch.column(0).to_pylist())


def number_of(value: Any) -> int:
    """What stands in the field `number`, or in a text."""
    if isinstance(value, int):
        return value
    found = _IN_TEXT.search(value) if isinstance(value, str) else None
    return int(found[1]) if found else NO_NUMBER
