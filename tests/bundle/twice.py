"""`python -m tests.bundle.twice --release DIR`: is a release the same when it is built once more?

The commit that it was made of is built again: from a clone in another folder, with another umask,
time zone, locale and seed of hashes, later than the first one. Every file is compared, and those
that differ are named, with the first member that does. Exit code 0 only if none does.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

from deploy.bundle.archives import sha256

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_UNLIKE: Final = {"LC_ALL": "C", "PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu"}
_UMASK: Final = 0o077
_NAME: Final = re.compile(r"penstock-wheelhouse-.*-py(\d)(\d+)-linux-(\w+)\.tar")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bundle.twice", description=__doc__)
    parser.add_argument("--release", type=Path, required=True, help="what make release has made")
    parser.add_argument("--directory", type=Path, help="where the other one is made, and stays")
    arguments = parser.parse_args()
    release: Path = arguments.release.resolve()
    with tempfile.TemporaryDirectory(prefix="penstock-twice-", dir=arguments.directory) as folder:
        again = Path(folder) / "again"
        build_again(release, again, Path(folder) / "clone")
        wrong = differences(release, again)
    for line in wrong:
        print(line)
    print(f"{len(list(release.iterdir()))} files, {len(wrong)} differ")
    return 1 if wrong else 0


def build_again(release: Path, out: Path, clone: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", str(_REPOSITORY), str(clone)], check=True)
    commit = commit_in(release)
    fetch = ["git", "-C", str(clone), "fetch", "--quiet", str(_REPOSITORY), commit]
    subprocess.run(fetch, check=True)
    subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", commit], check=True)
    # Of what was fetched, not of what was made of it.
    former, cache = _REPOSITORY / ".cache/bundle", out.with_name("cache")
    if former.exists():
        shutil.copytree(former, cache, ignore=shutil.ignore_patterns("made", ".*"))
    options = ["--out", str(out), "--cache", str(cache), *made_with(release)]
    subprocess.run(
        [sys.executable, "-m", "deploy.bundle", *options],
        cwd=clone,
        check=True,
        env={**os.environ, **_UNLIKE, "PYTHONPATH": str(clone), "CFLAGS": "-O0"},
        umask=_UMASK,
        stdout=subprocess.DEVNULL,
    )


def commit_in(release: Path) -> str:
    (parts,) = release.glob("penstock-*.cdx.json")
    about = json.loads(parts.read_text())["metadata"]["component"]["properties"]
    return next(str(each["value"]) for each in about if each["name"] == "penstock:commit")


def made_with(release: Path) -> list[str]:
    """The options that a release of these files is made with."""
    found = [match for path in release.iterdir() if (match := _NAME.fullmatch(path.name))]
    pythons = sorted({f"{major}.{minor}" for major, minor, _ in map(re.Match.groups, found)})
    processors = sorted({match[3] for match in found})
    spark = ["--spark"] if any(release.glob("*-spark.tar")) else []
    return [
        *(f"--python={each}" for each in pythons),
        *(f"--processor={each}" for each in processors),
        *spark,
        *([] if any(release.glob("*.deb")) else ["--for-ansible"]),
    ]


def differences(one: Path, other: Path) -> list[str]:
    """A line for each file that is not the same in both folders."""
    names = sorted({path.name for folder in (one, other) for path in folder.iterdir()})
    wrong = []
    for name in names:
        first, second = one / name, other / name
        if not first.exists() or not second.exists():
            wrong.append(f"{name}: only in {one if first.exists() else other}")
        elif sha256(first) != sha256(second):
            where = first_difference(first, second) if ".tar" in name else ""
            wrong.append(f"{name}: differs{where}")
    return wrong


def first_difference(one: Path, other: Path) -> str:
    for first, second in zip_longest(_members(one), _members(other)):
        if first != second:
            return f", first in {(first or second or ('',))[0]}"
    return ", not in what is in it"


def _members(path: Path) -> Iterator[tuple[object, ...]]:
    with tarfile.open(path) as archive:
        for each in archive:
            content = archive.extractfile(each)
            data = content.read() if content else b""
            yield each.name, each.mode, each.mtime, each.uid, each.linkname, data


if __name__ == "__main__":
    sys.exit(main())
