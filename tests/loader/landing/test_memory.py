"""A task's memory is bounded, however large its partition is, and however many hours it holds."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MEGABYTE = 1024 * 1024
AROUND = 100 * MEGABYTE  # files that are open, row groups while they are encoded, freed memory


@pytest.mark.not_quick("measures memory")
@pytest.mark.parametrize(("unpacked", "hours"), [(600 * MEGABYTE, 1), (150 * MEGABYTE, 2000)])
def test_a_large_slice_does_not_need_more_memory(unpacked: int, hours: int) -> None:
    memory = 24 * MEGABYTE
    command = [sys.executable, "-m", "tests.loader.landing.held_memory"]
    finished = subprocess.run(
        [*command, str(memory), str(unpacked), str(hours)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    most, written = map(int, finished.stdout.split())
    assert written > unpacked // 4
    assert most < memory + AROUND
