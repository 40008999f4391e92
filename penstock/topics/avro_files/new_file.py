"""Where a container file's bytes go: a file that is whole whenever it is there, or stdout.

Under its name a file is there from `publish` on. Until then it lies beside, as NAME.….partial, and
is removed with the context: whoever finds the name finds all that had been written before. A file
that goes on growing then does so by what is written at once, which are whole blocks; where a write
fails, what came of it is cut off again. Killed with SIGKILL, nothing is cleared away.
"""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import click

from ground.files.durable_files import sync_directory
from penstock.cli.failures import Failed

STDOUT: Final = Path("-")


def check_destination(path: Path, *, overwrite: bool) -> None:
    """Before anybody is asked for what is to be written."""
    if path != STDOUT:
        _check_free(path, overwrite=overwrite)
    elif sys.stdout.isatty():
        raise click.UsageError("--avro-file - writes bytes: send them to a file or a program")


def _check_free(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not path.is_file():
        raise Failed(f"{path} is no file")
    if not overwrite and os.path.lexists(path):
        raise Failed(f"{path} is there already; --overwrite replaces it")


class Output(Protocol):
    """Takes bytes; a context that closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def write(self, data: bytes) -> None:
        """All of it, now."""

    def publish(self) -> None:
        """From now on it is there for others."""


class StandardOutput:
    """What is written is there for others at once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def publish(self) -> None:
        pass


class NewFile:
    """One that is not there yet, unless it may be replaced. What goes wrong is a Failed."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = Path(os.path.realpath(path)) if overwrite else path
        self._overwrite = overwrite
        self._size = 0
        self._published = False
        _check_free(path, overwrite=overwrite)
        self._temporary = self._path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        try:
            self._file = self._temporary.open("xb", buffering=0)
        except OSError as error:
            raise self._failed(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if not self._published:
            self._temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise self._failed(error) from None
        self._size += len(data)

    def publish(self) -> None:
        """Once what is written is on the disk."""
        try:
            os.fsync(self._file.fileno())
            if not self._published:
                self._name()
                sync_directory(self._path.parent)
                self._published = True
        except OSError as error:
            raise self._failed(error) from None

    def _name(self) -> None:
        if not self._overwrite:
            try:
                # Of two that create the same name, a link knows which one was first.
                self._path.hardlink_to(self._temporary)
            except OSError:
                # It is there; or this file system has no links.
                _check_free(self._path, overwrite=False)
            else:
                self._temporary.unlink()
                return
        self._temporary.replace(self._path)

    def _failed(self, error: OSError) -> Failed:
        return Failed(f"{self._path}: {error.strerror or error}")
