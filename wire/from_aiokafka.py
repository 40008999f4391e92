"""The three things that are aiokafka's: its record batches in C, its murmur2, and its one error.

The package's own `__init__` imports its client with asyncio and all: 45 ms and 6 MB, in each of six
programs and before every command, for what nobody here uses. So they are imported as if it were
empty. Whoever imports aiokafka later has it whole.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from typing import Final

_PACKAGES: Final = ("aiokafka", "aiokafka.record")


@contextmanager
def _empty_packages() -> Iterator[None]:
    """With a path to their modules, and nothing in them."""
    absent = [name for name in _PACKAGES if name not in sys.modules]
    for name in absent:
        if spec := find_spec(name):
            sys.modules[name] = module_from_spec(spec)
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


with _empty_packages():
    from aiokafka.errors import CorruptRecordException
    from aiokafka.partitioner import murmur2

    # By its own name: without the C extension this must fail, not become thirty times slower.
    from aiokafka.record._crecords import DefaultRecordBatch

__all__ = ["CorruptRecordException", "DefaultRecordBatch", "murmur2"]
