"""A loader that is killed before every single change it makes to the file system, one after the
other, and each time taken up by another one: `python -m tests.loader.commit.killed_at_every_step`.

The kernel is asked, not the store: what counts as a step is what Python's own audit events say of
files that are opened for writing, linked, renamed and removed. So what lies between the steps of
the store is hit as well. Prints how many steps there were.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from loader.store.local import LocalStore
from tests.loader.commit.small_loader import (
    after_first_load,
    assert_all_landed_once,
    assert_success_comes_after_certificates,
    second_load,
    whole_log,
)

MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
CHANGES: Final = frozenset({"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
WRITES: Final = os.O_WRONLY | os.O_RDWR


def main() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        prepared = Path(folder) / "prepared"
        after_first_load(LocalStore(f"file://{prepared}"))
        step = 0
        while killed_at(step, Path(shutil.copytree(prepared, Path(folder) / str(step)))):
            step += 1
    sys.stdout.write(f"{step}\n")


def killed_at(step: int, root: Path) -> bool:
    """Whether there was such a step. Another loader follows in any case."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(step)
            second_load(LocalStore(f"file://{root}"), "killed").load()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}, f"step {step}: the loader ended with {code}"
    store = LocalStore(f"file://{root}")
    assert_success_comes_after_certificates(store)
    second_load(store, "next").load()
    try:
        assert_all_landed_once(store, whole_log())
    except AssertionError as error:
        error.add_note(f"killed before step {step}")
        raise
    shutil.rmtree(root)
    return code != 0


def kill_at(step: int) -> None:
    """From now on, this process dies before the change with this number."""
    left = step

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and _writes(arguments)):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(audit)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & WRITES)


if __name__ == "__main__":
    main()
