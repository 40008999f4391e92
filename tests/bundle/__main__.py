"""`python -m tests.bundle --release DIR`: does the agent's bundle run where there is no Python?

As root. In each of some root filesystems without Python: apt installs the agent from a signed
repository, and purges it, which leaves nothing; the archive is unpacked, and `penstock agent`
started as an ordinary user: it reads a file and ships its lines over TLS, with a login, to a broker
out here, its page answers, and nothing of the host's libraries is in its memory. In one more Debian
this machine's dnf installs the agent, which ships lines. Both packages refuse a host with
another release. The agent of the container image ships lines from its unpacked layer, with no
system around it. The source distribution and the wheel are installed without a network, from the
wheelhouse for this Python if there is one, with every extra but Kerberos. Exit code 0 only if all
of it is so.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from deploy.bundle.packages.repositories import write
from deploy.bundle.targets import PROCESSORS
from tests.bundle.bare_systems import ARM, BUSYBOX, DEBIAN, IMAGE, OLD, BareSystem
from tests.bundle.images import Container
from tests.bundle.package_managers import dnf, make_base, signing_key
from tests.bundle.shipping import Servers, ships, unpack

DNF: Final = "dnf"  # a Debian, where this machine's dnf installs the rpm
_DEFAULT: Final = (*DEBIAN, BUSYBOX, DNF, IMAGE)
_PYTHON: Final = "py{}{}".format(*sys.version_info)
# What proves that the modules in C are there, and those of the extra packages.
_IMPORTS: Final = """
import penstock, jinja2, puresasl, cryptography, numpy, kazoo, prometheus_client
from wire import _records
from agent.encoding.lines import _line_splitting
print(_records.__file__)
"""


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
    repositories = work / "repositories"
    with signing_key() as key:
        write(repositories, [release], key)
    zookeeper = EmbeddedZooKeeper.start(work / "zookeeper", port=0)
    try:
        with Servers(work / "servers", zookeeper.address) as servers:
            for name in arguments.system or _DEFAULT:
                began = time.monotonic()
                try:
                    mine = PROCESSORS["aarch64"] if name == ARM else processor
                    if name == IMAGE:
                        (image,) = release.glob("penstock-agent-*.oci.tar")
                        said = [ships(Container(work / name, image, mine.debian), servers)]
                    else:
                        kept = BareSystem(
                            arguments.directory / ("bookworm" if name == DNF else name)
                        )
                        kept.make(arguments.mirror, arguments.archive)
                        system = kept.copied_to(work / name)
                        (archive,) = release.glob(f"penstock-agent-*-linux-{mine.name}.tar.gz")
                        if name == DNF:
                            said = [_by_dnf(system, repositories, servers)]
                        else:
                            said = [_by_apt(system, repositories)] if name in {*DEBIAN, OLD} else []
                            unpack(system, archive)
                            said.append(ships(system, servers))
                except (AssertionError, TimeoutError) as error:
                    failed.append(name)
                    said = [f"FAILED: {error}"]
                seconds = time.monotonic() - began
                print(f"{name}: {'; '.join(said)} ({seconds:.0f} s)", flush=True)
    finally:
        zookeeper.stop()
    for house in release.glob(f"penstock-wheelhouse-*-{_PYTHON}-linux-{processor.name}.tar"):
        for kind in ("tar.gz", "whl"):
            (package,) = release.glob(f"penstock-[0-9]*.{kind}")
            print(f"{package.name}: {_by_pip(package, house, work / kind)}", flush=True)
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


def _by_apt(system: BareSystem, repositories: Path) -> str:
    """Installs the agent and purges it, as root would."""
    shutil.copytree(repositories, system.path_of("/tmp/penstock"))
    source = "deb [signed-by=/tmp/penstock/penstock.asc] file:/tmp/penstock/apt stable main\n"
    system.path_of("/tmp/sources.list").write_text(source)
    options = ["--yes", "-oDir::Etc::sourcelist=/tmp/sources.list", "-oDir::Etc::sourceparts=-"]

    def apt(*command: str) -> subprocess.CompletedProcess[str]:
        return system.run("apt-get", *options, *command, user=0)

    updated = apt("update")
    assert updated.returncode == 0, updated.stdout + updated.stderr
    link = system.path_of("/opt/penstock/current")
    link.parent.mkdir()
    link.symlink_to("releases/another")
    ended = apt("install", "penstock-agent")
    assert "remove it first" in ended.stdout + ended.stderr, ended.stdout + ended.stderr
    link.unlink()
    link.parent.rmdir()
    before = _files(system)
    ended = apt("install", "penstock-agent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ended = system.run("/opt/penstock/bin/penstock", "--version")
    assert ended.stdout.startswith("penstock "), ended.stdout + ended.stderr
    account = system.run("id", "penstock-agent")
    assert account.returncode == 0, account.stderr
    ended = apt("purge", "penstock-agent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    left = _files(system) - before
    assert not left, f"a purged package left {sorted(left)[:5]}"
    return "package installed by apt and purged"


def _by_dnf(system: BareSystem, repositories: Path, servers: Servers) -> str:
    """Installs the agent, has it ship lines, and removes it."""
    state = system.directory.with_name(f"{system.directory.name}.dnf")
    make_base(system.directory, state)
    on = partial(dnf, state, repositories.resolve(), root=system.directory.resolve())
    link = system.path_of("/opt/penstock/current")
    link.parent.mkdir()
    link.symlink_to("releases/another")
    ended = on("install", "penstock-agent")
    assert "Error in PREIN" in ended.stderr, ended.stdout + ended.stderr
    link.unlink()
    before = _files(system)
    ended = on("install", "penstock-agent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    account = system.run("id", "penstock-agent")
    assert account.returncode == 0, account.stderr
    shipped = ships(system, servers)
    ended = on("remove", "penstock-agent")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert system.path_of("/etc/penstock/agent.yaml").exists()
    kept = (str(system.path_of("/etc")), str(system.path_of("/var")))
    left = [path for path in _files(system) - before if not path.startswith(kept)]
    assert not left, f"a removed package left {sorted(left)[:5]}"
    return f"package installed by dnf and removed; {shipped}"


def _by_pip(package: Path, house: Path, directory: Path) -> str:
    """Installs it with every extra that the wheelhouse has packages for."""
    wheels = directory / "wheels"
    wheels.mkdir(parents=True)
    command = ["tar", "-xf", str(house), "-C", str(wheels), "--strip-components=1"]
    subprocess.run(command, check=True)
    extras = [path.stem.removeprefix("requirements-") for path in wheels.glob("requirements-*.txt")]
    for path in wheels.glob("penstock-*.whl"):  # pip would prefer it to the source distribution
        path.unlink()
    python = directory / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    options = ["--quiet", "--no-index", "--no-cache-dir", f"--find-links={wheels}"]
    wanted = f"{package.resolve()}[{','.join(extras)}]"
    for ended in (
        [str(python), "-m", "pip", "install", *options, wanted],
        [str(python), "-I", "-c", _IMPORTS],
    ):
        subprocess.run(["unshare", "--net", *ended], check=True)
    return f"installed by pip with {', '.join(sorted(extras))}"


def _files(system: BareSystem) -> set[str]:
    places = ("opt", "usr/lib/systemd", "usr/share/doc", "var/lib/penstock", "etc/penstock")
    return {
        str(path) for place in places for path in system.path_of(place).rglob("*")
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
