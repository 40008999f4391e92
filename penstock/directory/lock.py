"""The lock of a directory, for one `penstock up` at a time. Its file names the process."""

import os
from contextlib import suppress
from pathlib import Path

from ground.files.directory_lock import DirectoryLock, InUse
from penstock.directory.errors import AlreadyRunning


class Lock(DirectoryLock):
    """The lock, held until it is closed. Raises AlreadyRunning or OSError."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(path, mode=0o644)
        except InUse as error:
            holder = error.content[:20].strip()
            suffix = f" (process {int(holder)})" if holder.isdigit() else ""
            raise AlreadyRunning(
                f"{path.parent} is in use by another penstock up{suffix}: stop that one, or choose "
                "another --dir"
            ) from None
        os.ftruncate(self.fileno(), 0)
        os.pwrite(self.fileno(), b"%d\n" % os.getpid(), 0)

    def close(self) -> None:
        with suppress(OSError):
            os.ftruncate(self.fileno(), 0)
        super().close()
