"""What a loader has landed, read with nothing of Penstock."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq


def landed(table: Path) -> Counter[str]:
    """How often each message is there, in the files that any reader sees."""
    return Counter(
        message
        for file in table.rglob("*.parquet")
        if not file.name.startswith(("_", "."))
        for message in pq.read_table(file, columns=["message"]).column("message").to_pylist()
    )
