"""Releases for tests, made by `deploy/bundle` as users make them: `made(commit)`.

A release is made once for all tests and kept in .cache/releases, by its commit: a second process
that wants it waits. It is for the hosts' processor and their Python. The working tree with all that
is not committed is a commit as well, which no branch has: neither index nor files change.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from deploy.bundle.__main__ import commit_of
from deploy.bundle.archives import sha256
from harness.hosts.hosts import HostFailed

ROOT: Final = Path(__file__).resolve().parents[2]
HOSTS_PYTHON: Final = "3.11"  # of Debian 12 (harness/hosts/host_roots.py)
_CACHE: Final = ROOT / ".cache"
_KEPT: Final = 6  # each is 150 MB, and 600 MB with PySpark
_NAMED: Final = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


class Release(msgspec.Struct, frozen=True):
    """`folder` belongs to all tests: nothing is written there."""

    folder: Path
    version: str

    @property
    def collection(self) -> Path:
        return self.folder / f"penstock-pipeline-{self.version}.tar.gz"

    def copy_to(self, folder: Path, *, broken: bool = False) -> None:
        """Puts it beside the releases that are there; `broken`: with a wheel that pip refuses. The
        releases of older commits have their sums in a file that is not named by their version."""
        folder.mkdir(parents=True, exist_ok=True)
        sums = f"penstock-{self.version}.SHA256SUMS"
        rows = ""
        for file in self.folder.glob("penstock*[!S]"):
            target = folder / file.name
            shutil.copyfile(file, target)
            if broken and "-wheelhouse-" in file.name:
                _break_wheel(target)
            rows += f"{sha256(target)}  {file.name}\n"
        (folder / sums).write_text(rows)


def working_tree() -> str:
    """A commit of all that is there, also of files that git does not know yet."""
    with TemporaryDirectory() as directory:
        index = Path(directory) / "index"
        shutil.copyfile(ROOT / _git("rev-parse", "--git-path", "index"), index)
        beside = {"GIT_INDEX_FILE": str(index)}
        _git("add", "--all", environment=beside)
        tree = _git("write-tree", environment=beside)
    if tree == _git("rev-parse", "HEAD^{tree}"):
        return _git("rev-parse", "HEAD")
    return _commit(tree, "HEAD")


def next_commit() -> str:
    """The working tree under another version."""
    commit = working_tree()
    return _commit(f"{commit}^{{tree}}", commit)


def commit_that_brought(path: str) -> str:
    """Raises HostFailed where that is not known: in a clone without its history."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", path).split()
    if not added:
        raise HostFailed(f"no commit brought {path}")
    return added[-1]


def made(commit: str, *, spark: bool = False) -> Release:
    """The release of a commit, by the program that the commit has."""
    kept = _CACHE / "releases"
    kept.mkdir(parents=True, exist_ok=True)
    folder = kept / f"{commit}{'-spark' if spark else ''}"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _make(commit, folder, spark=spark)
            others = [path for path in kept.iterdir() if path.is_dir() and path != folder]
            for old in sorted(others, key=lambda path: path.stat().st_mtime)[: 1 - _KEPT]:
                shutil.rmtree(old)
        os.utime(folder)
    return Release(folder, commit_of(ROOT, commit).version)


def _make(commit: str, folder: Path, *, spark: bool) -> None:
    with TemporaryDirectory() as directory:
        clone = str(Path(directory) / "clone")
        _git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), clone)
        _git("-C", clone, "checkout", "--quiet", commit)
        options = ["--for-ansible", f"--python={HOSTS_PYTHON}", *(["--spark"] if spark else [])]
        _run(
            *(sys.executable, "-m", "deploy.bundle", f"--out={folder}", *options),
            f"--cache={_CACHE / 'bundle'}",
            cwd=Path(clone),
            environment={"PYTHONPATH": clone, "PYTHONDONTWRITEBYTECODE": "1"},
        )


def _commit(tree: str, parent: str) -> str:
    """The same one each time."""
    when = _git("show", "--no-patch", "--format=%cI", parent)
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    words = (tree, "-p", parent, "-m", "tests: what is released here")
    return _git(*_NAMED, "commit-tree", *words, environment=dates)


def _break_wheel(wheelhouse: Path) -> None:
    with tarfile.open(wheelhouse) as archive:
        at = next(member for member in archive if "/penstock-" in member.name).offset_data
    with wheelhouse.open("r+b") as file:
        file.seek(at)
        file.write(b"no wheel")


def _git(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    return _run("git", *arguments, cwd=ROOT, environment=environment or {}).strip()


def _run(*command: str, cwd: Path, environment: Mapping[str, str]) -> str:
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise HostFailed(f"{' '.join(command)}: {ended.stdout[-2000:]}{ended.stderr[-4000:]}")
    return ended.stdout
