"""Programs that mostly wait give memory back: nothing is made with Arrow's own allocator, not even
while they are imported."""

import subprocess
import sys

import pytest

from tests.penstock.running import REPOSITORY

_PROGRAM = """
import importlib, sys
import pyarrow as pa
importlib.import_module(sys.argv[1])
own = pa.mimalloc_memory_pool()
before = own.max_memory()
kept = pa.array(range(1000))
print(pa.default_memory_pool().backend_name, before, own.max_memory())
"""


@pytest.mark.not_quick("imports whole programs")
@pytest.mark.parametrize("program", ["penstock.services.audit", "penstock.services.load.command"])
def test_all_of_it_is_the_systems(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.split() == ["system", "0", "0"]
