"""The destination of a container file: a file that is always complete, or stdout.

Until `publish`, the file is named NAME.….partial, and removed if the context ends. After that it
has its name and grows by whole blocks; if a write fails, its part is truncated again. SIGKILL
leaves the partial file behind."""

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
    """Checks the destination, before any server is contacted."""
    if path != STDOUT:
        _check_free(path, overwrite=overwrite)
    elif sys.stdout.isatty():
        raise click.UsageError("--avro-file - writes binary data: redirect stdout")


def _check_free(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not path.is_file():
        raise Failed(f"{path} is not a file")
    if not overwrite and os.path.lexists(path):
        raise Failed(f"{path} exists; --overwrite replaces it")


class Output(Protocol):
    """A destination for bytes. A context."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def write(self, data: bytes) -> None:
        """Writes all of the data now."""

    def publish(self) -> None:
        """Makes the file visible under its name."""


class StandardOutput:
    """Writes to stdout, where data is visible at once."""

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
    """A new file, or one that replaces another. All errors are raised as Failed."""

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
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise self._failed(error) from None
        self._size += len(data)

    def publish(self) -> None:
        """Syncs the file, gives it its name, and syncs its directory."""
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
