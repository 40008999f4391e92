"""The code of a commit in a directory of its own, with today's programs that count.

What both commits are run with is what is installed here: a change of a library's version is not
seen. The C module is compiled anew if there is a compiler.
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
    """What git says of it."""


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path]:
    """The working tree as it is, for None."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="penstock-commit-") as made:
        tree = Path(made)
        command = ["git", "-C", str(ROOT), "archive", "--format=tar", f"{commit}^{{commit}}"]
        packed = subprocess.run(command, capture_output=True, check=False)
        if packed.returncode:
            raise NoSuchCommit(packed.stderr.decode(errors="replace").strip())
        subprocess.run(["tar", "-x", "-C", made], input=packed.stdout, check=True)
        shutil.rmtree(tree / "bench", ignore_errors=True)
        shutil.copytree(ROOT / "bench", tree / "bench")
        if (tree / "hatch_build.py").exists():
            subprocess.run(
                [sys.executable, "hatch_build.py"], cwd=tree, capture_output=True, check=False
            )
        yield tree
