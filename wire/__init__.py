"""Kafka's protocol and record batches. No I/O, no threads: bytes in, bytes and file slices out.
Whatever a peer sends, this package raises only the exceptions in `errors.py`."""

import sys
from importlib import import_module
from types import ModuleType
from typing import cast

# kio has strategies for hypothesis. Where that is installed, as for Penstock's own tests, importing
# it takes a fifth of a program's start-up time, and seven megabytes.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = cast("ModuleType", None)  # as if it were not installed
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
