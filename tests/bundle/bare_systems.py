"""Root filesystems without Python, in which a release's bundle is tried: Debian's, as debootstrap
makes its smallest, and one with nothing but busybox, which has no C library at all. There is one
like that for arm64's bundle on another machine: qemu runs its programs. That is registered in a
name space that ends with them, not on this machine (the kernel must be 6.7 or later).

Each is made once, in a folder that is kept. What is run in one has processes and mounts of its own,
which end with it, and this machine's network.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DEBIAN: Final = ("bullseye", "bookworm", "trixie")
OLD: Final = "buster"  # glibc 2.28, in Debian's archive
BUSYBOX: Final = "busybox"
ARM: Final = "arm64"
IMAGE: Final = "image"  # the release's own, with no system around it
USER: Final = 65534  # nobody

# The first word is the root's folder, the others are a command that replaces this one.
INSIDE: Final = """
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
if [ -e "$root/bin/qemu-aarch64" ]; then
    mount -t proc proc /proc
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    # An ELF file of 64 bits, low byte first, for machine 183. F: opened here, used behind chroot.
    magic='\\x7f\\x45\\x4c\\x46\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00'
    mask='\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff'
    cd /proc/sys/fs/binfmt_misc
    printf '%s' ":arm64:M::$magic:$mask:$root/bin/qemu-aarch64:F" > register
    cd /
fi
exec "$@"
"""


class BareSystem:
    """`directory` is its `/`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def emulated(self) -> bool:
        return (self.directory / "bin/qemu-aarch64").exists()

    @property
    def user(self) -> int:
        """Whoever runs an agent in there. Where it is emulated, nobody but root has a number."""
        return 0 if self.emulated else USER

    def make(self, mirror: str, archive: str) -> None:
        """If it is not there yet."""
        name = self.directory.name
        if self.directory.exists():
            return
        made = self.directory.with_name(f"{name}.part")
        subprocess.run(["rm", "-rf", str(made)], check=True)
        if name in {BUSYBOX, ARM}:
            _busybox(made)
            if name == ARM:
                with _unpacked("qemu-user-static") as package:
                    qemu = package / "usr/bin/qemu-aarch64-static"
                    subprocess.run(["cp", str(qemu), str(made / "bin/qemu-aarch64")], check=True)
        else:
            options = ["--variant=minbase"]
            if name == OLD:
                options += ["--keyring=/usr/share/keyrings/debian-archive-removed-keys.gpg"]
            command = ["debootstrap", *options, name, str(made), archive if name == OLD else mirror]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        made.rename(self.directory)

    def copied_to(self, directory: Path) -> "BareSystem":
        subprocess.run(["cp", "-a", str(self.directory), str(directory)], check=True)
        return BareSystem(directory)

    def inside(self, *command: str, user: int | None = None) -> list[str]:
        """The words that run a command in there."""
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        number = self.user if user is None else user
        as_user = [f"--userspec={number}:{number}"]
        if self.emulated:
            own, as_user = [*own, "--user", "--map-root-user"], []
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return [*own, "sh", "-c", INSIDE, "-", str(self.directory),
                "chroot", *as_user, str(self.directory), "/bin/sh", "-c",
                f'cd /; {path} exec "$@"', "-", *command]  # fmt: skip

    def run(self, *command: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.inside(*command, user=user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )

    def path_of(self, inside: str) -> Path:
        return self.directory / inside.lstrip("/")


@contextmanager
def _unpacked(package: str) -> Iterator[Path]:
    """What a package of Debian has in it. Nothing of it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        (file,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(file), f"{folder}/unpacked"], check=True)
        yield Path(folder, "unpacked")


def _busybox(root: Path) -> None:
    with _unpacked("busybox-static") as package:
        (found,) = (
            each for each in package.rglob("busybox")
            if each.is_file() and each.parent.name == "bin"
        )  # fmt: skip
        for each in ("bin", "dev/shm", "etc", "proc", "tmp", "var/log"):
            (root / each).mkdir(parents=True)
        subprocess.run(["cp", str(found), str(root / "bin/busybox")], check=True)
    for name in ("sh", "readlink", "chown", "mkdir"):
        (root / "bin" / name).symlink_to("busybox")
    subprocess.run(["mknod", "-m", "666", str(root / "dev/null"), "c", "1", "3"], check=True)
    subprocess.run(["mknod", "-m", "666", str(root / "dev/urandom"), "c", "1", "9"], check=True)
