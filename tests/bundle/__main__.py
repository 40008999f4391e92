"""`python -m tests.bundle --release DIR`: does the agent's bundle run where there is no Python?

As root. In each of some root filesystems without Python: the Debian package is installed and purged
and leaves nothing; the archive is unpacked, and `penstock agent` started as an ordinary user: it
reads a file and ships its lines over TLS, with a login, to a broker out here, its page answers, and
nothing of the host's libraries is in its memory. So does the agent of the container image, whose
layers are unpacked, with no system around it. Exit code 0 only if all of it is so.
"""

import argparse
import os
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from deploy.bundle.targets import PROCESSORS
from tests.bundle.bare_systems import ARM, BUSYBOX, DEBIAN, IMAGE, OLD, BareSystem
from tests.bundle.images import Container
from tests.bundle.shipping import Servers, ships, unpack

_DEFAULT: Final = (*DEBIAN, BUSYBOX, IMAGE)


def main() -> int:
    arguments = _arguments()
    if os.geteuid() != 0:
        raise SystemExit("root filesystems are made by root")
    release: Path = arguments.release
    processor = PROCESSORS[platform.machine()]
    work: Path = arguments.directory / "tried"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    failed = []
    zookeeper = EmbeddedZooKeeper.start(work / "zookeeper", port=0)
    try:
        with Servers(work / "servers", zookeeper.address) as servers:
            for name in arguments.system or _DEFAULT:
                began = time.monotonic()
                try:
                    mine = PROCESSORS["aarch64"] if name == ARM else processor
                    if name == IMAGE:
                        (image,) = release.glob("penstock-agent-*.oci.tar")
                        system: BareSystem = Container(work / name, image, mine.debian)
                        said = []
                    else:
                        kept = BareSystem(arguments.directory / name)
                        kept.make(arguments.mirror, arguments.archive)
                        system = kept.copied_to(work / name)
                        (archive,) = release.glob(f"penstock-agent-*-linux-{mine.name}.tar.gz")
                        (package,) = release.glob(f"penstock-agent_*_{mine.debian}.deb")
                        said = [] if name in {BUSYBOX, ARM} else [_package(system, package)]
                        unpack(system, archive)
                    said.append(ships(system, servers))
                except (AssertionError, TimeoutError) as error:
                    failed.append(name)
                    said = [f"FAILED: {error}"]
                seconds = time.monotonic() - began
                print(f"{name}: {'; '.join(said)} ({seconds:.0f} s)", flush=True)
    finally:
        zookeeper.stop()
    shutil.rmtree(work)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make release-tried", description=__doc__)
    parser.add_argument("--release", type=Path, required=True, help="what make release has made")
    parser.add_argument(
        "--system",
        action="append",
        choices=[*_DEFAULT, OLD, ARM],
        help="only these; all otherwise but the old, and arm64 by qemu",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("/var/tmp/penstock-bare-systems"),
        help="2 GB are needed; the root filesystems stay for the next time (%(default)s)",
    )
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    parser.add_argument("--archive", default="http://archive.debian.org/debian")
    return parser.parse_args()


def _package(system: BareSystem, package: Path) -> str:
    """Installs it and removes it again, as root would."""
    copied = system.path_of("/tmp/penstock-agent.deb")
    shutil.copyfile(package, copied)
    before = _files(system)
    ended = system.run("dpkg", "--install", "/tmp/penstock-agent.deb", user=0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ended = system.run("/opt/penstock/bin/penstock", "--version")
    assert ended.stdout.startswith("penstock "), ended.stdout + ended.stderr
    account = system.run("id", "penstock-agent")
    assert account.returncode == 0, account.stderr
    ended = system.run("dpkg", "--purge", "penstock-agent", user=0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    left = _files(system) - before
    assert not left, f"a purged package left {sorted(left)[:5]}"
    return "package installed and purged"


def _files(system: BareSystem) -> set[str]:
    places = ("opt", "usr/lib/systemd", "usr/share/doc", "var/lib/penstock", "etc/penstock")
    return {
        str(path) for place in places for path in system.path_of(place).rglob("*")
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
