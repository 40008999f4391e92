"""What was measured, as data: one form, whoever writes it.

    {"commit": "1a2b3c4 of 2026-11-24, changed", "date": "2026-11-24T21:00:00Z", "command": …,
     "machine": {"cores": …, "kernel": …, "Python": …}, "versions": {"Penstock": …, …},
     "profiles": {NAME: {"about": …, "cases": {CASE: {BROKER: {"failure": …, "samples": […]}}}}}}

Counts of instructions have `counts`, path by path, in place of `profiles`. Nothing is overwritten:
a file below `RESULTS` is called by the time and the commit.
"""

import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.figures import machine

RESULTS: Final = Path(__file__).resolve().parents[1] / "results"


def circumstances(directory: Path, versions: Mapping[str, str]) -> dict[str, object]:
    """Of a run that begins now."""
    return {
        "commit": machine.commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "machine": machine.description(directory),
        "versions": dict(versions),
    }


def write(circumstances: Mapping[str, object], file: Path | None, **measured: object) -> Path:
    """Where it is written: `file`, or one of its own."""
    if file is None:
        RESULTS.mkdir(exist_ok=True)
        began = str(circumstances["date"]).replace(":", "")
        file = RESULTS / f"{began}-{str(circumstances['commit']).split()[0]}.json"
    file.write_text(json.dumps({**circumstances, **measured}, indent=1) + "\n")
    return file
