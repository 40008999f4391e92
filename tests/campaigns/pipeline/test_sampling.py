"""What a process and its files take is read, kept, and read again."""

import gc
import mmap
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.campaigns.pipeline.sampling import Look, of_process


def looked(pid: int | None = None) -> dict[str, Look]:
    looking = of_process("own", lambda: os.getpid() if pid is None else pid)
    return {each.series: each for each in looking()}


def test_a_process_is_measured_with_what_it_opens(tmp_path: Path) -> None:
    """More of each than other tests may have left that ends just now."""
    gc.collect()
    before = looked()
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(30)]
    with ExitStack() as stack:
        stack.callback(over.set)
        for thread in threads:
            thread.start()
        for number in range(200):
            stack.enter_context((tmp_path / str(number)).open("w"))
        # Not from malloc, which may have as much left of what other tests have freed.
        taken = stack.enter_context(mmap.mmap(-1, 48 * 1024 * 1024))
        taken.write(b"x" * len(taken))
        after = looked()
    for thread in threads:
        thread.join()
    grown = {name: after[name].value - before[name].value for name in before}
    assert grown["own threads"] >= 20
    assert grown["own descriptors"] >= 100
    assert grown["own memory"] > 40 * 1024 * 1024
    assert {each.life for each in after.values()} == {str(os.getpid())}


@pytest.mark.slow
def test_children_count_as_their_parent() -> None:
    alone = looked()["own memory"].value
    there = "import json; print(1, flush=True); input()"
    command = [sys.executable, "-c", there]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert looked()["own memory"].value > alone + 1024 * 1024
        child.communicate(b"\n")
