"""Being an ordinary user for a while, in a folder that such a one may look into."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def open_folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))  # where anybody may look
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
