"""A minimal Debian in a folder, which runs commands as root or as an ordinary user.

Commands see nothing of this machine except its network: they get pip's variables (PIP_*, proxies,
certificates), and copies of the files that those name. Each command runs in PID and mount
namespaces of its own, which end with it.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

USER: Final = "newcomer"
HOME: Final = Path("/home") / USER
_HANDED_ON: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_PIP_FILES: Final = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
_NETWORK_FILES: Final = (Path("/etc/resolv.conf"), Path("/etc/hosts"))
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Arguments: the root filesystem's folder, and the command to execute. With OFFLINE the network
# namespace is new, and has only loopback.
_INSIDE: Final = """
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
[ -z "$OFFLINE" ] || ip link set lo up
exec "$@"
"""


class Result(NamedTuple):
    """A command's exit code, duration and output (stdout and stderr interleaved)."""

    exit_code: int
    seconds: float
    output: str


class RootFilesystem:
    """A Debian root filesystem in `directory`. Remove the folder to start afresh."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def make(self, release: str, mirror: str | None) -> None:
        """Creates a Debian release's minimal system with a user and this machine's settings for
        pip. Without `mirror` debootstrap uses its default."""
        command = ["debootstrap", "--variant=minbase", release, str(self.directory)]
        source = [] if mirror is None else [mirror]
        subprocess.run([*command, *source], check=True, stdout=subprocess.DEVNULL)
        self._copy_settings()
        self.as_root(f"useradd --create-home --shell /bin/bash {USER}")

    def copy_from(self, other: "RootFilesystem") -> None:
        subprocess.run(["cp", "-a", str(other.directory), str(self.directory)], check=True)

    def install(self, *packages: str) -> Result:
        """Installs packages with apt's defaults, including recommended packages."""
        result = self.as_root(f"apt-get update && apt-get install --yes {' '.join(packages)}")
        if result.exit_code == 0:
            self._copy_settings()  # a package may have installed certificates of its own
        return result

    def as_root(self, script: str) -> Result:
        environment = {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        return self._run(script, ["chroot", str(self.directory)], environment)

    def as_user(self, script: str, *, offline: bool = False) -> Result:
        """Runs a script in the user's home."""
        chroot = ["chroot", f"--userspec={USER}:{USER}", str(self.directory)]
        environment = {"HOME": str(HOME), "USER": USER, **_settings()}
        return self._run(f"cd\n{script}", chroot, environment, offline=offline)

    def clone(self, repository: Path, inside: Path) -> None:
        """Clones the committed state of a repository."""
        trust = ["-c", f"safe.directory={repository}", "-c", f"safe.directory={repository}/.git"]
        arguments = ["clone", "--quiet", "--no-local", str(repository), str(self.path_of(inside))]
        subprocess.run(["git", *trust, *arguments], check=True)
        self.as_root(f"chown -R {USER}:{USER} {inside}")

    def path_of(self, inside: Path) -> Path:
        """The path on this machine of a path inside the root filesystem."""
        return self.directory / inside.relative_to("/")

    def _run(
        self,
        script: str,
        inside: list[str],
        environment: dict[str, str],
        *,
        offline: bool = False,
    ) -> Result:
        namespaces = ["--mount", "--pid", *(["--net"] if offline else [])]
        unshare = ["unshare", *namespaces, "--fork", "--kill-child", "bash", "-c", _INSIDE]
        env = ["env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        shell = [f"PATH={_PATH}", "LANG=C.UTF-8", "bash", "-c", script]
        start = time.monotonic()
        result = subprocess.run(
            [*unshare, "-", str(self.directory), *inside, *env, *shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OFFLINE": "yes" if offline else ""},
            check=False,
        )
        return Result(
            result.returncode, time.monotonic() - start, result.stdout.decode(errors="replace")
        )

    def _copy_settings(self) -> None:
        paths = (Path(value) for value in _settings().values() if value.startswith("/"))
        for path in (*_NETWORK_FILES, *_PIP_FILES, *paths):
            if path.is_file():
                target = self.path_of(path.resolve() if path in _NETWORK_FILES else path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                shutil.copyfile(path, target)


def _settings() -> dict[str, str]:
    """This machine's environment variables for pip, proxies and certificates."""
    names = {*_HANDED_ON, *_PROXIES, *(name.lower() for name in _PROXIES)}
    return {
        key: value for key, value in os.environ.items() if key.startswith("PIP_") or key in names
    }
