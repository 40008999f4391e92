"""The Debian packages in the agent's bundle: a Python interpreter and its libraries.

`debian-packages.lock` pins them by version and SHA-256, so that builds stay reproducible. apt
downloads them and verifies the checksums. `python -m deploy.bundle lock` asks apt for newer
versions, and trusts only lists signed with Debian's keys. Nothing is installed on this machine.
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
COLUMNS: Final = ": architecture, package, version, SHA-256, path in Debian's pool"
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


def fetched(package: Package, cache: Path, pool: str) -> Path:
    """Downloads the package into `cache`, unless it is there already, and returns its path."""
    file = cache / f"{package.sha256}.deb"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Two builds may share a cache, so the name has this process's number.
        part = file.with_suffix(f".{os.getpid()}.part")
        command = ["/usr/lib/apt/apt-helper", "download-file", pool + package.path, str(part)]
        result = subprocess.run(
            [*command, f"SHA256:{package.sha256}"], capture_output=True, text=True, check=False
        )
        if result.returncode:
            part.unlink(missing_ok=True)
            raise SystemExit(
                f"could not download {package.name} {package.version} from {pool}. If Debian has a "
                "newer version, run `python -m deploy.bundle lock`, or pass --pool with a mirror "
                f"that keeps old versions:\n{result.stderr.strip()}"
            )
        part.replace(file)
    if sha256(file) != package.sha256:
        raise SystemExit(f"{file} does not match the checksum in the lock: remove it")
    return file


def unpack(package_file: Path, into: Path) -> None:
    """Unpacks the package's files with their modes, without links that leave `into`."""
    tar = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(package_file)], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(tar.stdout)) as archive:
        members = [member for member in archive if not member.linkname.startswith("/")]
        archive.extractall(into, members=members, filter="tar")


def newest() -> list[Package]:
    """Returns Debian's current versions, including security updates, from apt with a temporary
    state."""
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
        result = subprocess.run(
            [*apt, "--print-uris", "download", *NAMES], capture_output=True, text=True, check=True
        )
    return [_package_at_uri(line, architecture) for line in result.stdout.splitlines()]


def _package_at_uri(line: str, architecture: str) -> Package:
    """Parses `'URL' NAME_VERSION_ARCHITECTURE.deb SIZE SHA256:…`."""
    url, file, _, digest = line.split(" ")
    name, version, _ = urllib.parse.unquote(file).rsplit("_", 2)
    _, _, path = url.strip("'").partition("/debian")
    # A path relative to the pool; the security archive is at `../debian-security/…`.
    path = path.removeprefix("/") if path.startswith("/") else f"../debian{path}"
    return Package(architecture, name, version, digest.removeprefix("SHA256:"), path)
