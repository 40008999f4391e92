"""The counts that stand in the repository, and how others compare with them.

Counts are of one version of Python with one set of libraries, so both are named beside them: with
others nothing is said. A path is slower if its count has grown by more than `TOLERANCE`.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.counted.paths import PATHS

FILE: Final = Path(__file__).resolve().parent.parent / "counts.json"
ACCEPT: Final = 'make bench ARGS="--accept-counts"'
TOLERANCE: Final = 0.05
_CONSTRAINTS: Final = Path(__file__).resolve().parents[2] / "constraints.txt"

Counts = Mapping[str, int]


def circumstances() -> dict[str, str]:
    """What counts depend on beside the code."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "constraints": hashlib.sha256(_CONSTRAINTS.read_bytes()).hexdigest()[:16],
    }


def why_not_comparable(file: Path = FILE) -> str | None:
    """In one line; None if what is counted here can be held against the file."""
    known, here = json.loads(file.read_text())["of"], circumstances()
    other = [
        f"{key} {here[key]}, not {known.get(key)}" for key in here if here[key] != known.get(key)
    ]
    return f"the accepted counts are of others: {', '.join(other)}" if other else None


def accepted(file: Path = FILE) -> dict[str, int]:
    counts: dict[str, int] = json.loads(file.read_text())["counts"]
    return counts


def accept(counts: Counts, file: Path = FILE) -> None:
    """From now on these are what is expected."""
    text = json.dumps({"of": circumstances(), "counts": dict(counts)}, indent=1)
    file.write_text(text + "\n")


def change(before: int, after: int) -> float:
    return after / before - 1


def grown(before: Counts, after: Counts, tolerance: float = TOLERANCE) -> list[str]:
    """A sentence for each path that takes more than it may."""
    return [
        f"{name} takes {after[name]:,} instructions for each {PATHS[name].unit}, "
        f"{change(before[name], after[name]):.1%} more than the {before[name]:,} that are "
        f"accepted; if that is meant, accept it: {ACCEPT}"
        for name in PATHS
        if name in before and name in after and change(before[name], after[name]) > tolerance
    ]
