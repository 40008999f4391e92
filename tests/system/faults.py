"""Real faults below the broker, from outside: faults.c compiled, preloaded and commanded.

`Faults` gives the environment for a process and changes what that process meets while it runs.
`lose_power` makes of a killed process's directory what a disk would hold after a loss of power:
of every file what was synced, and some of the rest; of every directory the names that were.
"""

import errno
import os
import random
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
CONTROL = struct.Struct("@qii240s")


class NoCompiler(Exception):
    """No C compiler is installed."""


def compile_faults(directory: Path) -> Path:
    """The shared library, built in `directory`."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) is installed")
    library = directory / "faults.so"
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    subprocess.run([compiler, *options, str(SOURCE), "-ldl"], check=True)
    return library


class Faults:
    """The faults of one process; none at first."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._control = directory / "faults.control"
        self._journal = directory / "faults.journal"
        self._offset_ms = 0
        self._sync_error = 0
        self._sync_delay_ms = 0
        self._matching = ""
        self._write()
        self.environment = {
            # Besides what is preloaded already, as where the tests run elsewhen.
            "LD_PRELOAD": ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD", "")])),
            "PENSTOCK_FAULTS_CONTROL": str(self._control),
            "PENSTOCK_FAULTS_JOURNAL": str(self._journal),
        }

    def _write(self) -> None:
        block = CONTROL.pack(
            self._offset_ms, self._sync_error, self._sync_delay_ms, self._matching.encode()
        )
        # In place: the process has mapped this very file.
        descriptor = os.open(self._control, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(descriptor, block, 0)
        os.close(descriptor)

    def move_clock(self, seconds: float) -> None:
        """Advance the wall clock by this much."""
        self._offset_ms = int(seconds * 1000)
        self._write()

    def fail_syncs(self, of: str) -> None:
        """fsync and fdatasync of files with this in their path return EIO."""
        self._matching, self._sync_error = of, errno.EIO
        self._write()

    def delay_syncs(self, of: str, seconds: float) -> None:
        self._matching, self._sync_delay_ms = of, int(seconds * 1000)
        self._write()

    def no_more(self) -> None:
        self._offset_ms = self._sync_error = self._sync_delay_ms = 0
        self._write()

    def synced(self) -> tuple[dict[int, int], dict[int, frozenset[str]]]:
        """By inode: the synced size of each file, and the synced names of each directory."""
        files: dict[int, int] = {}
        directories: dict[int, frozenset[str]] = {}
        if self._journal.exists():
            for line in self._journal.read_text().splitlines():
                kind, inode, rest = line.split(" ", 2)
                if kind == "F":
                    files[int(inode)] = int(rest)
                else:
                    directories[int(inode)] = frozenset(rest.split("/")[:-1])
        return files, directories

    def lose_power(self, directory: Path, chance: random.Random) -> None:
        """What a disk may have kept of a directory tree whose process was killed.

        Of what was appended since the last sync some part may be there, or none; a name that its
        directory was not synced with may be there, or not, with all that is below it.
        """
        files, directories = self.synced()
        for here, names, plain in os.walk(directory, topdown=False):
            folder = Path(here)
            kept = directories.get(folder.stat().st_ino, frozenset())
            for name in plain:
                path = folder / name
                found = path.stat()
                if name not in kept and chance.random() < 0.5:
                    path.unlink()
                    continue
                safe = min(files.get(found.st_ino, 0), found.st_size)
                left = chance.choice([safe, found.st_size, chance.randint(safe, found.st_size)])
                os.truncate(path, left)
            for name in names:
                inner = folder / name
                if name not in kept and chance.random() < 0.5:
                    shutil.rmtree(inner)
        # What is left now is on the disk.
        with self._journal.open("a") as journal:
            for here, names, plain in os.walk(directory):
                folder = Path(here)
                listed = "".join(f"{name}/" for name in [*names, *plain])
                journal.write(f"D {folder.stat().st_ino} {listed}\n")
                for name in plain:
                    found = (folder / name).stat()
                    journal.write(f"F {found.st_ino} {found.st_size}\n")
