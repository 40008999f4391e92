"""The code of a commit, checked out into a directory, with the counting programs of the working
tree.

The installed libraries are used for every commit, so a library's change of version has no effect.
The C modules are compiled if there is a compiler.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class NoSuchCommit(Exception):
    """The commit does not exist; the message is git's."""


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path]:
    """Yields the tree of the commit; for None, the working tree."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="penstock-commit-") as directory:
        tree = Path(directory)
        command = ["git", "-C", str(ROOT), "archive", "--format=tar", f"{commit}^{{commit}}"]
        archive = subprocess.run(command, capture_output=True, check=False)
        if archive.returncode:
            raise NoSuchCommit(archive.stderr.decode(errors="replace").strip())
        subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
        shutil.rmtree(tree / "bench", ignore_errors=True)
        shutil.copytree(ROOT / "bench", tree / "bench")
        if (tree / "hatch_build.py").exists():
            subprocess.run(
                [sys.executable, "hatch_build.py"], cwd=tree, capture_output=True, check=False
            )
        yield tree
