"""The inputs that were followed before, and since when: what `start` says is not for them any more,
and a journal that has lost its end may not know that anybody looked at them.

One small file in the data directory, written when the first look at an input's files is in the
journal. An agent that was killed before that looks at them as if for the first time again. If the
file is damaged, inputs that have sources are known by those.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ground.durable_files import replace_file

_FILE: Final = "inputs.json"


def read_inputs(directory: Path) -> dict[str, int] | None:
    """By name, milliseconds since 1970, 0 if that is not known; None if what is there cannot be
    understood."""
    try:
        inputs = json.loads((directory / _FILE).read_text(encoding="utf-8"))
        if isinstance(inputs, list):  # as Penstock 0.1 wrote it
            inputs = dict.fromkeys(inputs, 0)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(inputs, dict):
        return None
    are_sound = all(isinstance(name, str) and type(at) is int for name, at in inputs.items())
    return inputs if are_sound else None


def write_inputs(directory: Path, names: Collection[str], now_millis: int) -> None:
    """Those that are new are followed since now. Raises OSError; what stood there before stands
    then."""
    before = read_inputs(directory)
    inputs = {each: (before or {}).get(each, now_millis) for each in sorted(names)}
    if before == inputs:
        return
    replace_file(directory / _FILE, json.dumps(inputs).encode())
