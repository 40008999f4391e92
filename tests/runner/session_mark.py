"""The mark of a test run: every process that tests start inherits it, by which it is known even
after its parent is gone."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SESSION: Final = "PENSTOCK_TEST_SESSION"


def processes_with(mark: str, variable: str = SESSION) -> Iterator[tuple[Path, str]]:
    """All running processes that inherited the mark, below /proc, and their commands."""
    wanted = f"{variable}={mark}".encode()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                yield process, os.fsdecode(command)
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
