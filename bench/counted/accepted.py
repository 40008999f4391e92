"""The counts that stand in the repository, and how others compare with them.

Counts are of one Python as it was built, one C library and one set of libraries, so these are
named beside them, and there may be several sets: where none is of what is here, nothing is said.
A path is slower if its count has grown by more than `TOLERANCE`.
"""

import hashlib
import json
import platform
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent.batches import framing
from agent.bodies import plain_json
from agent.events import times
from agent.lines import splitting
from bench.counted.paths import PATHS
from columns import native
from wire.record_batches import record_check

FILE: Final = Path(__file__).resolve().parent.parent / "counts.json"
ACCEPT: Final = 'make bench ARGS="--accept-counts"'
TOLERANCE: Final = 0.05
_CONSTRAINTS: Final = Path(__file__).resolve().parents[2] / "constraints.txt"

# Where there is a compiler.
_IN_C: Final = (framing, native, plain_json, splitting, times, record_check)

Counts = Mapping[str, int]


def circumstances() -> dict[str, str]:
    """What counts depend on beside the code."""
    built = f"{platform.python_compiler()} {sysconfig.get_config_var('CONFIG_ARGS')}"
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "built": _digest(built.encode()),
        "constraints": _digest(_CONSTRAINTS.read_bytes()),
        "in C": "all" if all(each.NATIVE for each in _IN_C) else "not all",
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def why_not_comparable(file: Path = FILE) -> str | None:
    """In one line; None if what is counted here can be held against the file."""
    here = circumstances()
    known: list[dict[str, str]] = [each["of"] for each in _sets(file)]
    if here in known:
        return None
    if not known:
        return "nobody has accepted any counts"
    near = max(known, key=lambda each: sum(each.get(key) == here[key] for key in here))
    other = [
        f"{key} {here[key]}, not {near.get(key)}" for key in here if here[key] != near.get(key)
    ]
    return f"nobody has accepted counts for {', '.join(other)}"


def accepted(file: Path = FILE) -> dict[str, int]:
    """Those of this Python and these libraries; nothing, if there are none."""
    here = circumstances()
    return next((dict(each["counts"]) for each in _sets(file) if each["of"] == here), {})


def accept(counts: Counts, file: Path = FILE) -> None:
    """From now on these are what is expected here. What is expected elsewhere stays."""
    here = circumstances()
    kept = [each for each in _sets(file) if each["of"] != here]
    text = json.dumps([*kept, {"of": here, "counts": dict(counts)}], indent=1)
    file.write_text(text + "\n")


def _sets(file: Path) -> list[dict[str, Any]]:
    sets: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return sets


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
