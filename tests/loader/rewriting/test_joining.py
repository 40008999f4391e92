"""What travels to executors to join files there."""

import subprocess
import sys

import pytest
from pyspark.cloudpickle import dumps

from loader.rewriting.merging import task_of
from tests.loader.rewriting.row_files import target

UNPICKLE = """
import pickle, sys
task = pickle.load(sys.stdin.buffer)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"loader", "wire", "schemas"}))
try:
    print(list(task([])))
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.mark.not_quick("starts a process")
def test_a_task_is_unpickled_where_nothing_of_penstock_was_imported() -> None:
    """And the first that it does is to look for it."""
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLE],
        input=dumps(task_of(target())),  # type: ignore[no-untyped-call]
        capture_output=True,
        check=True,
        cwd="/",
        timeout=60,
    )
    found, result = done.stdout.decode().splitlines()
    assert found == "[]"
    assert result in {"[]", "penstock"}
