"""Importing what kio knows of a message, while finalizers import as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wire.kio_schemas import data_schema, imported, request_schema, response_schema

# The collector runs after every possible number of allocations of an import, and a finalizer
# imports then. `LOAD` is how the import is made.
SCRIPT = """
import gc, sys
from importlib import import_module
from wire.kio_schemas import imported

class Late:
    def __init__(self):
        self.me = self

    def __del__(self):
        import_module(f"late{at}")

failed = 0
for at in range(80):
    gc.collect()
    Late()
    gc.set_threshold(gc.get_count()[0] + at)
    try:
        LOAD(f"one{at}")
    except KeyError:
        failed += 1
    finally:
        gc.set_threshold(700)
    assert f"one{at}" in sys.modules or failed
    gc.collect()
    assert f"late{at}" in sys.modules
print(failed)
"""


def failures(folder: Path, load: str) -> int:
    for at in range(80):
        for name in ("one", "late"):
            (folder / f"{name}{at}.py").touch()
    script = SCRIPT.replace("LOAD(", load)
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({str(folder)!r})\n{script}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stderr == ""
    return int(found.stdout)


def test_an_import_amid_an_import_does_no_harm(tmp_path: Path) -> None:
    assert failures(tmp_path, "imported(import_module, ") == 0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 mended it")
def test_it_does_harm_elsewhere(tmp_path: Path) -> None:
    assert failures(tmp_path, "import_module(") > 0


def test_what_is_not_there_is_an_error_still() -> None:
    with pytest.raises(KeyError, match="nothing"):
        imported(os.environ.__getitem__, "nothing")


def test_each_kind_of_message_has_its_own() -> None:
    found = (
        request_schema(3, 12),
        response_schema(3, 12),
        data_schema("consumer_protocol_subscription", 0),
    )
    names = [each.__name__ for each in found]
    assert names == ["MetadataRequest", "MetadataResponse", "ConsumerProtocolSubscription"]
