"""Writes signed repositories for apt, and for dnf, zypper and yum, of the packages of releases.

`python -m deploy.bundle.packages.repositories --release DIR --out DIR --key KEY` writes

    penstock.asc                                    the public key
    apt/dists/stable/InRelease, Release, Release.gpg
    apt/dists/stable/main/binary-amd64/Packages     also for arm64
    apt/pool/                                       the debs
    yum/                                            the rpms, which are signed
    yum/repodata/repomd.xml, repomd.xml.asc

A package is signed only if its release's SHA256SUMS has it. The indexes have the date of the newest
release. OUT receives the finished repositories by a rename.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deploy.bundle.archives import sha256
from deploy.bundle.targets import PROCESSORS

_NAME: Final = re.compile(r"penstock-[\w.+~-]+(_\w+\.deb|\.rpm)", re.ASCII)
_TOOLS: Final = {"createrepo_c": "createrepo-c", "rpmsign": "rpm", "gpg": "gpg"}
_RELEASE: Final = """\
Origin: Penstock
Label: Penstock
Suite: stable
Codename: stable
Date: {date}
Architectures: {architectures}
Components: main
Description: Packages of Penstock
SHA256:
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release-repositories", description=__doc__)
    parser.add_argument(
        "--release", type=Path, action="append", required=True, help="may be repeated"
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that does not exist")
    parser.add_argument("--key", required=True, help="gpg's name of the key that signs")
    arguments = parser.parse_args()
    for command, package in _TOOLS.items():
        if shutil.which(command) is None:
            raise SystemExit(f"{command} is missing: apt install {package}")
    out: Path = arguments.out
    if out.exists():
        raise SystemExit(f"{out} exists: move it away, or pass --out with another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as folder:
        repositories = Path(folder) / "repositories"
        try:
            write(repositories, arguments.release, arguments.key)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{error.cmd[0]} failed, so nothing was written") from error
        repositories.rename(out)
    print(f"{out} has {', '.join(sorted(path.name for path in _packages(out.rglob('*'))))}")
    return 0


def write(out: Path, releases: Iterable[Path], key: str) -> None:
    """Writes both repositories into the new folder `out`. Raises SystemExit for a package that its
    release does not list, and CalledProcessError if a tool fails."""
    fingerprint = _fingerprint(key)
    (out / "apt/pool").mkdir(parents=True)
    (out / "yum").mkdir()
    moments = []
    for release in releases:
        files = _verified(release)
        moments += [_moment(path) for path in release.glob("penstock-*.cdx.json")]
        for path in files:
            folder = out / ("apt/pool" if path.suffix == ".deb" else "yum")
            shutil.copyfile(path, folder / path.name)
    if not moments:
        raise SystemExit("no release has a bill of materials (penstock-VERSION.cdx.json)")
    moment = max(moments)
    _write_apt(out / "apt", fingerprint, moment)
    _write_yum(out / "yum", fingerprint, moment)
    _gpg(fingerprint, "--export", fingerprint, into=out / "penstock.asc")


def _fingerprint(key: str) -> str:
    """It names one key, and has no characters that rpm would expand in a macro."""
    command = ["gpg", "--list-keys", "--with-colons", "--", key]
    rows = subprocess.check_output(command, text=True).splitlines()
    return next(row.split(":")[9] for row in rows if row.startswith("fpr:"))


def _verified(release: Path) -> list[Path]:
    """The packages in this folder. Raises SystemExit if one differs from the release's sums."""
    lines = [
        line
        for path in release.glob("penstock-*.SHA256SUMS")
        for line in path.read_text().splitlines()
    ]
    files = _packages(release.iterdir())
    if not files:
        raise SystemExit(f"{release} has no packages: build it without --for-ansible")
    for path in files:
        if f"{sha256(path)}  {path.name}" not in lines:
            raise SystemExit(f"{path} does not match the release's SHA256SUMS")
    return files


def _packages(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if _NAME.fullmatch(path.name))


def _moment(bill: Path) -> int:
    timestamp = json.loads(bill.read_text())["metadata"]["timestamp"]
    return int(datetime.fromisoformat(timestamp).timestamp())


def _write_apt(folder: Path, key: str, moment: int) -> None:
    suite = folder / "dists/stable"
    architectures = sorted(processor.debian for processor in PROCESSORS.values())
    for architecture in architectures:
        index = suite / f"main/binary-{architecture}/Packages"
        index.parent.mkdir(parents=True)
        debs = sorted((folder / "pool").glob(f"*_{architecture}.deb"))
        text = "\n".join(_entry(deb, folder) for deb in debs)
        index.write_text(text)
        index.with_suffix(".gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    date = datetime.fromtimestamp(moment, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    rows = [
        f" {sha256(path)} {path.stat().st_size} {path.relative_to(suite)}\n"
        for path in sorted(suite.glob("main/*/*"))
    ]
    head = _RELEASE.format(date=date, architectures=" ".join(architectures))
    (suite / "Release").write_text(head + "".join(rows))
    _gpg(key, "--clearsign", str(suite / "Release"), into=suite / "InRelease")
    _gpg(key, "--detach-sign", str(suite / "Release"), into=suite / "Release.gpg")


def _entry(deb: Path, folder: Path) -> str:
    """The package's control fields, and where apt finds it."""
    fields = subprocess.check_output(["dpkg-deb", "--field", str(deb)], text=True)
    size, digest = deb.stat().st_size, sha256(deb)
    return f"{fields}Filename: {deb.relative_to(folder)}\nSize: {size}\nSHA256: {digest}\n"


def _write_yum(folder: Path, key: str, moment: int) -> None:
    rpms = sorted(folder.glob("*.rpm"))
    macros = {"_gpg_name": key, "__gpg": shutil.which("gpg")}
    options = [f"--define={name} {value}" for name, value in macros.items()]
    command = ["rpmsign", *options, "--addsign", *map(str, rpms)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for rpm in rpms:
        os.utime(rpm, (moment, moment))
    options = [f"--revision={moment}", "--set-timestamp-to-revision", "--no-database", "--quiet"]
    options += ["--general-compress-type=gz"]  # RHEL 7 and 8 read no zstd
    subprocess.run(["createrepo_c", *options, str(folder)], check=True)
    index = folder / "repodata/repomd.xml"
    _gpg(key, "--detach-sign", str(index), into=index.with_name("repomd.xml.asc"))


def _gpg(key: str, *command: str, into: Path) -> None:
    options = ["--batch", "--armor", f"--output={into}", f"--local-user={key}"]
    subprocess.run(["gpg", *options, *command], check=True)


if __name__ == "__main__":
    sys.exit(main())
