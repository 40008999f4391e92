"""The names of inputs that were followed before: what `start` says is not for them any more.

One small file in the data directory. If it is damaged or gone, inputs that have sources are known
by those; the others begin as new ones do.
"""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

_FILE: Final = "inputs.json"


def read_names(directory: Path) -> set[str]:
    try:
        names = json.loads((directory / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {each for each in names if isinstance(each, str)} if isinstance(names, list) else set()


def write_names(directory: Path, names: Collection[str]) -> None:
    """Raises OSError; what stood there before stands then."""
    if read_names(directory) == set(names):
        return
    new = directory / f"{_FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(sorted(names), file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(directory / _FILE)
