"""A minimal Debian in a folder, and commands in it, as root or as an ordinary user.

Nothing of this machine is seen in there but its network: pip's own variables (PIP_*, proxies,
certificates) are handed on, and the files that they name are copied. Each command has processes
and mounts of its own, which end with it.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

RELEASE: Final = "bookworm"
USER: Final = "newcomer"
HOME: Final = Path("/home") / USER
_HANDED_ON: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_OF_PIP: Final = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
_OF_THE_NETWORK: Final = (Path("/etc/resolv.conf"), Path("/etc/hosts"))
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The first word is the root's folder, the others are a command that replaces this one. Where it has
# a network of its own, that has nothing but loopback.
_INSIDE: Final = """
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
[ -z "$OFFLINE" ] || ip link set lo up
exec "$@"
"""


class Ended(NamedTuple):
    """How a command ended. `said` is stdout and stderr as they came."""

    exit_code: int
    seconds: float
    said: str


class RootFilesystem:
    """Made once; who wants a fresh one removes the folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def make(self, mirror: str | None) -> None:
        """Nothing but what Debian calls minimal, a user, and what pip needs here. Without a mirror,
        from where debootstrap finds its packages by itself."""
        base = ["debootstrap", "--variant=minbase", RELEASE, str(self.directory)]
        given = [] if mirror is None else [mirror]
        subprocess.run([*base, *given], check=True, stdout=subprocess.DEVNULL)
        self._copy_settings()
        self.as_root(f"useradd --create-home --shell /bin/bash {USER}")

    def copy_from(self, other: "RootFilesystem") -> None:
        subprocess.run(["cp", "-a", str(other.directory), str(self.directory)], check=True)

    def install(self, *packages: str) -> Ended:
        """As apt does it for whoever types it, with what the packages recommend."""
        ended = self.as_root(f"apt-get update && apt-get install --yes {' '.join(packages)}")
        if ended.exit_code == 0:
            self._copy_settings()  # a package may have brought certificates of its own
        return ended

    def as_root(self, script: str) -> Ended:
        environment = {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        return self._run(script, ["chroot", str(self.directory)], environment)

    def as_user(self, script: str, *, offline: bool = False) -> Ended:
        """In the user's home."""
        inside = ["chroot", f"--userspec={USER}:{USER}", str(self.directory)]
        environment = {"HOME": str(HOME), "USER": USER, **_settings()}
        return self._run(f"cd\n{script}", inside, environment, offline=offline)

    def clone(self, repository: Path, inside: Path) -> None:
        """What is committed, and nothing else."""
        safe = ["-c", f"safe.directory={repository}", "-c", f"safe.directory={repository}/.git"]
        clone = ["clone", "--quiet", "--no-local", str(repository), str(self.path_of(inside))]
        subprocess.run(["git", *safe, *clone], check=True)
        self.as_root(f"chown -R {USER}:{USER} {inside}")

    def path_of(self, inside: Path) -> Path:
        """Where a path of the root filesystem is on this machine."""
        return self.directory / inside.relative_to("/")

    def _run(
        self,
        script: str,
        inside: list[str],
        environment: dict[str, str],
        *,
        offline: bool = False,
    ) -> Ended:
        own = ["--mount", "--pid", *(["--net"] if offline else [])]
        alone = ["unshare", *own, "--fork", "--kill-child", "bash", "-c", _INSIDE]
        clean = ["env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        shell = [f"PATH={_PATH}", "LANG=C.UTF-8", "bash", "-c", script]
        began = time.monotonic()
        ended = subprocess.run(
            [*alone, "-", str(self.directory), *inside, *clean, *shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OFFLINE": "yes" if offline else ""},
            check=False,
        )
        return Ended(
            ended.returncode, time.monotonic() - began, ended.stdout.decode(errors="replace")
        )

    def _copy_settings(self) -> None:
        named = (Path(value) for value in _settings().values() if value.startswith("/"))
        for path in (*_OF_THE_NETWORK, *_OF_PIP, *named):
            if path.is_file():
                target = self.path_of(path.resolve() if path in _OF_THE_NETWORK else path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                shutil.copyfile(path, target)


def _settings() -> dict[str, str]:
    """pip's, and how this machine reaches the network."""
    wanted = {*_HANDED_ON, *_PROXIES, *(each.lower() for each in _PROXIES)}
    return {
        key: value for key, value in os.environ.items() if key.startswith("PIP_") or key in wanted
    }
