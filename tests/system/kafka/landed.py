"""The loader's files, read without Penstock."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq


def landed(table: Path) -> Counter[str]:
    """Return the number of occurrences of each message in the visible files."""
    return Counter(
        message
        for file in table.rglob("*.parquet")
        if not file.name.startswith(("_", "."))
        for message in pq.read_table(file, columns=["message"]).column("message").to_pylist()
    )
