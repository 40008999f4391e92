"""Lock files: sorted rows, one on each line, with fields that are separated by blanks."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


def read_lock(text: str, kind: type[R]) -> list[R]:
    """Parses a lock. Raises ValueError for a malformed line."""
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            fields = line.split(" ")
            if len(fields) != len(kind.__struct_fields__):
                raise ValueError(f"not {len(kind.__struct_fields__)} fields: {line!r}")
            rows.append(kind(*fields))
    return rows


def lock_text(columns: str, rows: Iterable[msgspec.Struct]) -> str:
    """Returns the text of a lock with these rows. `columns` names them in its first line."""
    tuples = sorted({msgspec.structs.astuple(row) for row in rows})
    lines = "".join(f"{' '.join(fields)}\n" for fields in tuples)
    return f"# Made by `python -m deploy.bundle lock`{columns}.\n{lines}"
