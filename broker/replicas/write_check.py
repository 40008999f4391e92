"""Checks every five seconds that the broker can write to its folders: the data directory and that
of each partition.

A process may go on writing to open files after its folders have become read-only, and most logs
write no other file for minutes. So failed writes alone would tell late, and would not tell the end.
The data directory gets a small file, which also needs room and an inode. Other folders get one only
if the system denies access to them. A crash may leave the file, which the next check replaces.

Reading `unwritable` is for any thread.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ground.files.file_system import write_error_words
from ground.printable import path_text
from wire.messages.describe_log_dirs import UnwritableFolder

_EVERY_SECONDS: Final = 5.0
_UNWRITABLE_EVERY_SECONDS: Final = 1.0
_FILE_NAME: Final = ".write-check"
_MOST_LOGGED: Final = 4

log = logging.getLogger(__name__)


class WriteCheck:
    """The folders that cannot be written to at present, those that failed first at the front."""

    unwritable: tuple[UnwritableFolder, ...] = ()

    def __init__(
        self,
        data_dir: Path,
        others: Callable[[], Iterable[Path]],
        *,
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        """`others` returns the other folders, on this object's thread."""
        self._data_dir = data_dir
        self._others = others
        self._every = every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="write-check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def why_not_ready(self) -> str:
        """Why the broker is not ready: empty if it can write to all folders."""
        if not self.unwritable:
            return ""
        first, *others = self.unwritable
        more = f" and {len(others):,} more" if others else ""
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(first.since / 1000))
        return f"cannot write to {first.folder}{more}: {first.reason}, since {since}"

    def _run(self) -> None:
        while True:
            self._check()
            if self._ended.wait(_UNWRITABLE_EVERY_SECONDS if self.unwritable else self._every):
                return

    def _check(self) -> None:
        known = {failure.folder: failure for failure in self.unwritable}
        now_ms = time.time_ns() // 1_000_000
        failures = [
            UnwritableFolder(folder, reason, known[folder].since if folder in known else now_ms)
            for folder, reason in self._failures()
        ]
        new_failures = [failure for failure in failures if failure.folder not in known]
        for failure in new_failures[:_MOST_LOGGED]:
            log.error("cannot write path=%s reason=%r", failure.folder, failure.reason)
        if known and not failures:
            log.info("can write again path=%s", self._data_dir)
        self.unwritable = tuple(sorted(failures, key=lambda failure: failure.since))

    def _failures(self) -> Iterator[tuple[str, str]]:
        if reason := _why_unwritable(self._data_dir):
            yield path_text(str(self._data_dir)), reason
            return  # most likely the cause for all others
        for folder in self._others():
            if not os.access(folder, os.W_OK | os.X_OK) and (reason := _why_unwritable(folder)):
                yield path_text(str(folder)), reason


def _why_unwritable(folder: Path) -> str:
    """Writes a file; returns why that fails. Empty for a folder that is gone, such as that of a
    deleted partition."""
    path = folder / _FILE_NAME
    try:
        path.write_bytes(b"Penstock checks that it can write here.\n")
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = write_error_words(error, folder)
    else:
        reason = ""
    with contextlib.suppress(OSError):
        path.unlink()
    return reason
