"""The names of inputs that were followed before: what `start` says is not for them any more.

One small file in the data directory, written when the first look at an input's files is in the
journal. An agent that was killed before that looks at them as if for the first time again. If the
file is damaged, inputs that have sources are known by those.
"""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

_FILE: Final = "inputs.json"


def read_names(directory: Path) -> set[str] | None:
    """None if what is there cannot be understood."""
    try:
        names = json.loads((directory / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return set()
    except (OSError, ValueError):
        return None
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        return None
    return set(names)


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
