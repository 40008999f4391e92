"""A run of TLC over an instance of the specification, and what came of it."""

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from harness.java.tlc import tlc_command
from tests.spec.instances import Instance
from tests.spec.trace import Step, steps

MODULE: Final = Path(__file__).with_name("Replication.tla")
_BROKEN: Final = re.compile(r"Invariant (\w+) is violated")
_COUNTED: Final = re.compile(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found")
_DEPTH: Final = re.compile(r"depth of the complete state graph search is (\d+)")
_WALKED: Final = re.compile(r"Progress: ([\d,]+) states checked\.\s+Finished in")
_FINISHED: Final = "Model checking completed. No error has been found."


class CheckerFailed(Exception):
    """TLC did not come to a verdict for another reason than time; what it said."""


class Searched(msgspec.Struct, frozen=True):
    """What a search has found: `broken` is empty and `complete` where all is well.

    `complete` says that every state was looked at; else the time was up, or a state was found
    that breaks an invariant, and `story` leads there. What random walks looked at is `generated`.
    """

    broken: str
    story: Sequence[Step]
    complete: bool
    generated: int
    distinct: int
    depth: int
    seconds: float


def search(
    instance: Instance,
    *,
    seconds: float,
    workers: int = 1,
    heap: str = "1g",
    walks: int = 0,
    keep: Path | None = None,
) -> Searched:
    """Searches an instance for so long at most: breadth first, or by so many random `walks`. With
    `keep`, module and configuration stay there for TLC by hand."""
    with tempfile.TemporaryDirectory(prefix="tlc-") as folder:
        directory = keep or Path(folder)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MODULE.name).write_text(MODULE.read_text())
        (directory / MODULE.with_suffix(".cfg").name).write_text(instance.configuration())
        temporary = Path(folder) / "temporary"
        temporary.mkdir()
        options = ("-simulate", f"num={walks}", "-depth", "60") if walks else ()
        command = tlc_command(MODULE, *options, temporary=temporary, heap=heap, workers=workers)
        began = time.monotonic()
        output, ended = _run(command, directory, seconds)
        return _read(output, ended, time.monotonic() - began)


def _run(command: Sequence[str], directory: Path, seconds: float) -> tuple[str, bool]:
    """What TLC printed, and whether it came to an end in time."""
    with tempfile.TemporaryFile("w+") as output:
        try:
            subprocess.run(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        output.seek(0)
        return output.read(), ended


def _read(output: str, ended: bool, seconds: float) -> Searched:
    broken, depth, walked = (each.search(output) for each in (_BROKEN, _DEPTH, _WALKED))
    complete = _FINISHED in output
    if ended and not complete and not broken and not walked:
        raise CheckerFailed(output)
    counted = _COUNTED.findall(output)
    generated, distinct = counted[-1] if counted else (walked[1] if walked else "0", "0")
    return Searched(
        broken=broken[1] if broken else "",
        story=steps(output) if broken else (),
        complete=complete,
        generated=int(generated.replace(",", "")),
        distinct=int(distinct.replace(",", "")),
        depth=int(depth[1]) if depth else 0,
        seconds=seconds,
    )
