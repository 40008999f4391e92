"""A file's new content in place of the old: after a crash it has the one or the other."""

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
