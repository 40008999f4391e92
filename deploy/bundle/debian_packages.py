"""The packages of Debian that the agent's bundle is made of: an interpreter, and what it needs.

`debian-packages.lock` names each by version and SHA-256, so that a build is the same tomorrow. apt
fetches them, compares the sums, and is asked for newer ones by `python -m deploy.bundle lock`,
which believes nothing that is not signed with Debian's keys. Nothing of it is installed here.
"""

import io
import os
import subprocess
import tarfile
import tempfile
import urllib.parse
from pathlib import Path
from typing import Final

import msgspec

from deploy.bundle.archives import sha256
from deploy.bundle.targets import PROCESSORS

LOCK: Final = Path(__file__).with_name("debian-packages.lock")
POOL: Final = "http://deb.debian.org/debian/"
_SUITE: Final = "trixie"
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_HEAD: Final = (
    "# Made by `python -m deploy.bundle lock`: architecture, package, version, SHA-256, "
    "where it lies in Debian's pool.\n"
)
NAMES: Final = (
    *("python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib"),
    *("libc6", "libgcc-s1", "libssl3t64", "libffi8", "libexpat1"),
    *("zlib1g", "liblzma5", "libbz2-1.0", "libzstd1"),
)


class Package(msgspec.Struct, frozen=True, order=True):
    architecture: str
    name: str
    version: str
    sha256: str
    path: str


def locked(text: str) -> list[Package]:
    """What the lock says. Raises ValueError if a line is not understood."""
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            architecture, name, version, digest, path = line.split(" ")
            found.append(Package(architecture, name, version, digest, path))
    return found


def lock_text(packages: list[Package]) -> str:
    rows = sorted(packages)
    lines = (f"{p.architecture} {p.name} {p.version} {p.sha256} {p.path}\n" for p in rows)
    return _HEAD + "".join(lines)


def fetched(package: Package, cache: Path, pool: str) -> Path:
    """The package's file, from `cache` if it is there already."""
    file = cache / f"{package.sha256}.deb"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Of this process: two builds may share a cache.
        made = file.with_suffix(f".{os.getpid()}.part")
        get = ["/usr/lib/apt/apt-helper", "download-file", pool + package.path, str(made)]
        ended = subprocess.run(
            [*get, f"SHA256:{package.sha256}"], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            made.unlink(missing_ok=True)
            raise SystemExit(
                f"{package.name} {package.version} could not be fetched from {pool}. If Debian has "
                "a newer one, run `python -m deploy.bundle lock`, or name a mirror that keeps old "
                f"ones with --pool:\n{ended.stderr.strip()}"
            )
        made.replace(file)
    if sha256(file) != package.sha256:
        raise SystemExit(f"{file} is not what the lock names: remove it")
    return file


def unpack(package_file: Path, into: Path) -> None:
    """Its files, in the modes that they have there, and nothing that points out of `into`."""
    tar = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(package_file)], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(tar.stdout)) as archive:
        wanted = [each for each in archive if not each.linkname.startswith("/")]
        archive.extractall(into, members=wanted, filter="tar")


def newest() -> list[Package]:
    """What Debian has now, with its security updates. By apt, which has a state of its own here."""
    return [
        package for processor in PROCESSORS.values() for package in _newest_of(processor.debian)
    ]


def _newest_of(architecture: str) -> list[Package]:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        (state / "lists/partial").mkdir(parents=True)
        (state / "cache/archives/partial").mkdir(parents=True)
        (state / "status").touch()
        sources = "".join(
            f"deb [signed-by={_KEYRING} arch={architecture}] {url} {suite} main\n"
            for url, suite in (
                (POOL, _SUITE),
                (POOL.replace("/debian/", "/debian-security/"), f"{_SUITE}-security"),
            )
        )
        (state / "sources.list").write_text(sources)
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::Etc::sourcelist": str(state / "sources.list"),
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": str(state / "lists"),
            "Dir::State::status": str(state / "status"),
            "Dir::Cache": str(state / "cache"),
        }
        apt = ["apt-get", *(f"-o{key}={value}" for key, value in settings.items())]
        subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
        told = subprocess.run(
            [*apt, "--print-uris", "download", *NAMES], capture_output=True, text=True, check=True
        )
    return [_as_apt_says(line, architecture) for line in told.stdout.splitlines()]


def _as_apt_says(line: str, architecture: str) -> Package:
    """`'URL' NAME_VERSION_ARCHITECTURE.deb SIZE SHA256:…`"""
    url, file, _, digest = line.split(" ")
    name, version, _ = urllib.parse.unquote(file).rsplit("_", 2)
    _, _, path = url.strip("'").partition("/debian")
    # Of the security archive there is `../debian-security/…`, seen from the pool.
    path = path.removeprefix("/") if path.startswith("/") else f"../debian{path}"
    return Package(architecture, name, version, digest.removeprefix("SHA256:"), path)
