"""The accepted counts (bench/counts.json), and their comparison with new ones.

Counts depend on the build of Python, the C library and the installed libraries, so the file records
these and may hold several sets. Without a set for this environment nothing is compared. A path is
slower if its count has grown by more than `TOLERANCE`.
"""

import hashlib
import json
import platform
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent.encoding.batches import framing
from agent.encoding.bodies import plain_json
from agent.encoding.events import times
from agent.encoding.lines import splitting
from bench.counted.paths import PATHS
from columns import native
from wire.record_batches import record_check

FILE: Final = Path(__file__).resolve().parent.parent / "counts.json"
ACCEPT: Final = 'make bench ARGS="--accept-counts"'
TOLERANCE: Final = 0.05
_CONSTRAINTS: Final = Path(__file__).resolve().parents[2] / "constraints.txt"

# Compiled where there is a compiler.
_IN_C: Final = (framing, native, plain_json, splitting, times, record_check)

Counts = Mapping[str, int]


def circumstances() -> dict[str, str]:
    """Returns the properties of the environment that affect counts."""
    build = f"{platform.python_compiler()} {sysconfig.get_config_var('CONFIG_ARGS')}"
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "built": _digest(build.encode()),
        "constraints": _digest(_CONSTRAINTS.read_bytes()),
        "in C": "all" if all(module.NATIVE for module in _IN_C) else "not all",
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def why_not_comparable(file: Path = FILE) -> str | None:
    """Returns in one line why counts cannot be compared; None if the file has counts for this
    environment."""
    environment_here = circumstances()
    environments: list[dict[str, str]] = [entry["of"] for entry in _sets(file)]
    if environment_here in environments:
        return None
    if not environments:
        return "no counts have been accepted"
    nearest = max(
        environments,
        key=lambda known: sum(known.get(key) == environment_here[key] for key in environment_here),
    )
    changes = [
        f"{key} {environment_here[key]}, not {nearest.get(key)}"
        for key in environment_here
        if environment_here[key] != nearest.get(key)
    ]
    return f"no counts have been accepted for {', '.join(changes)}"


def accepted(file: Path = FILE) -> dict[str, int]:
    """Returns the counts accepted for this environment; empty if there are none."""
    environment_here = circumstances()
    return next(
        (dict(entry["counts"]) for entry in _sets(file) if entry["of"] == environment_here), {}
    )


def accept(counts: Counts, file: Path = FILE) -> None:
    """Records the counts for this environment; those for other environments stay."""
    environment_here = circumstances()
    other_sets = [entry for entry in _sets(file) if entry["of"] != environment_here]
    text = json.dumps([*other_sets, {"of": environment_here, "counts": dict(counts)}], indent=1)
    file.write_text(text + "\n")


def _sets(file: Path) -> list[dict[str, Any]]:
    sets: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return sets


def change(before: int, after: int) -> float:
    return after / before - 1


def grown(before: Counts, after: Counts, tolerance: float = TOLERANCE) -> list[str]:
    """Returns a sentence for each path whose count has grown by more than the tolerance."""
    return [
        f"{name} takes {after[name]:,} instructions for each {PATHS[name].unit}, "
        f"{change(before[name], after[name]):.1%} more than the accepted {before[name]:,}; "
        f"if that is intended: {ACCEPT}"
        for name in PATHS
        if name in before and name in after and change(before[name], after[name]) > tolerance
    ]
