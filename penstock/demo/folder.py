"""The folder of a demonstration: one that was named and stays, or one that is removed.

It also stays where a demonstration failed, for its logs, or was killed.
"""

import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.demo.errors import DemoFailed
from penstock.up.places import PRIVATE

_REMOVE_SECONDS: Final = 10.0  # for programs that were just killed to be gone


class Folder:
    """A context. `kept` can be set within it; a demonstration that failed leaves its logs, too."""

    def __init__(self, named: Path | None, *, keep: bool) -> None:
        """Raises DemoFailed if the folder that was named has something in it, or can be none."""
        self.kept = keep or named is not None
        try:
            if named is None:
                self.path = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
                return
            self.path = named.absolute()
            self.path.mkdir(PRIVATE, parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise DemoFailed(f"{named} is not empty: name another folder with --dir")
        except OSError as error:
            raise DemoFailed(f"{error.filename} cannot be used: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.kept |= isinstance(error, DemoFailed)
        deadline = time.monotonic() + _REMOVE_SECONDS
        while not self.kept and self.path.exists() and time.monotonic() < deadline:
            shutil.rmtree(self.path, ignore_errors=True)
