"""Kafka's protocol and record batches. No I/O, no threads: bytes in, bytes and file slices out.
Whatever a peer sends, the only exceptions that leave it are those of `errors.py`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import cast

# kio has strategies for hypothesis. Where that is installed, as it is for Penstock's own tests, its
# import is a fifth of the time that a program takes to start, and seven megabytes of each.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = cast("ModuleType", None)  # as if it were not there
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
