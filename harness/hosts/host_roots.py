"""Root filesystems for hosts: a Debian created once by debootstrap, and layers over it.

They are in a folder on this machine (PENSTOCK_HOSTS_CACHE, or CACHE), named by a hash of their
definition, so that a change here creates new ones; an existing folder is complete. They are never
written to afterwards: a host writes into its own layer above. Creating them needs root and Debian's
packages, and takes two minutes; booting hosts from them needs no network.

    plain   Python, sshd, sudo, systemd: a minimal server
    java    adds a JRE, for a host that runs ZooKeeper or Spark
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

RELEASE: Final = "bookworm"
CACHE: Final = Path("/var/tmp/penstock-hosts")  # noqa: S108  no secrets; only root writes
PACKAGES: Final = (
    "systemd-sysv",
    "python3",
    "python3-venv",
    "openssh-server",
    "sudo",
    "acl",
    "ca-certificates",
    "iproute2",
    "procps",
    "logrotate",
    "netbase",
    "tzdata",
)
JAVA: Final = "openjdk-17-jre-headless"
OPERATOR: Final = "deployer"  # may sudo

# Units that fetch packages, need a clock, terminals or a kernel of their own.
_MASKED: Final = (
    "apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer"
    " getty.target console-getty.service systemd-timesyncd.service systemd-networkd.service"
    " systemd-logind.service systemd-udevd.service systemd-resolved.service"
    " systemd-networkd-wait-online.service proc-sys-fs-binfmt_misc.automount"
)
# Each fleet has its own keys; sshd does no reverse lookups.
_PREPARE: Final = f"""
set -e
rm -f /etc/ssh/ssh_host_*
useradd --create-home --shell /bin/bash {OPERATOR}
echo '{OPERATOR} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{OPERATOR}
printf 'UseDNS no\\nHostKey /etc/ssh/ssh_host_ed25519_key\\nMaxStartups 100\\n' \\
    > /etc/ssh/sshd_config.d/hosts.conf
systemctl mask --quiet {_MASKED}
systemctl enable --quiet ssh
rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /etc/resolv.conf
"""
_INSTALL_JAVA: Final = f"""
set -e
export DEBIAN_FRONTEND=noninteractive
mkdir -p /usr/share/man/man1
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends {JAVA}
rm /usr/sbin/policy-rc.d
"""
_TIDY: Final = """
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/*.log /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
"""
# A layer is what a command writes; its mount ends with the shell.
_IN_LAYER: Final = """
set -e
mkdir -p "$2/upper" "$2/work" "$2/merged"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/merged"
cp -L /etc/resolv.conf "$2/merged/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$2/merged/etc/ssl/certs/ca-certificates.crt"
mount -t proc proc "$2/merged/proc"
chroot "$2/merged" bash -c "$3"
rm -f "$2/merged/etc/resolv.conf"
"""


class CannotMake(Exception):
    """A root filesystem cannot be created here; the message says what is missing."""


def layers(*, java: bool = False) -> list[Path]:
    """Returns the folders of a root filesystem from the topmost layer to the lowest, creating them
    if necessary."""
    cache = Path(os.environ.get("PENSTOCK_HOSTS_CACHE", CACHE))
    plain_root = cache / f"plain-{_name_of(RELEASE, *PACKAGES, _PREPARE, _TIDY)}"
    java_layer = cache / f"java-{_name_of(plain_root.name, _INSTALL_JAVA, _TIDY)}"
    stack = [java_layer, plain_root] if java else [plain_root]
    if all(layer.exists() for layer in stack):
        return stack
    _check_here()
    with _alone(cache):
        if not plain_root.exists():
            _make_plain(plain_root)
        if java and not java_layer.exists():
            _make_java(java_layer, plain_root)
    return stack


def _name_of(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Serializes creation; a second process waits, and finds the result of the first."""
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_here() -> None:
    if os.geteuid() != 0:
        raise CannotMake("only root can create root filesystems")
    if shutil.which("debootstrap") is None:
        raise CannotMake("no debootstrap: apt install debootstrap")


def _make_plain(target: Path) -> None:
    unfinished_root = target.with_suffix(".unfinished")
    shutil.rmtree(unfinished_root, ignore_errors=True)
    package_option = f"--include={','.join(PACKAGES)}"
    _run("debootstrap", "--variant=minbase", package_option, RELEASE, str(unfinished_root))
    _run("chroot", str(unfinished_root), "bash", "-c", _PREPARE + _TIDY)
    unfinished_root.rename(target)


def _make_java(target: Path, plain_root: Path) -> None:
    unfinished_root = target.with_suffix(".unfinished")
    shutil.rmtree(unfinished_root, ignore_errors=True)
    prefix = ("unshare", "--mount", "bash", "-c", _IN_LAYER)
    _run(*prefix, "-", str(plain_root), str(unfinished_root), _INSTALL_JAVA + _TIDY)
    (unfinished_root / "upper").rename(target)
    shutil.rmtree(unfinished_root)


def _run(*command: str) -> None:
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": "/tmp"}  # noqa: S108  in the new root
    run = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        check=False,
    )
    if run.returncode:
        last_lines = "\n".join(run.stdout.splitlines()[-20:])
        raise CannotMake(f"{command[0]} ended with {run.returncode}:\n{last_lines}")
