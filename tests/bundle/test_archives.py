"""Archives, lists of packages and wheels that a release is made of: the same bytes each time."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.bundle import sbom
from deploy.bundle.agent import unpack
from deploy.bundle.archives import members_in, write_gz, write_tar
from deploy.bundle.downloads import debian_packages
from deploy.bundle.downloads.debian_packages import LOCK, NAMES, Package
from deploy.bundle.downloads.locks import lock_text, read_lock
from deploy.bundle.targets import PROCESSORS
from deploy.bundle.wheels import Wheel


def tree(directory: Path, names: list[str]) -> Path:
    """Files that are made in this order, with modes of their own, and a link."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (directory / names[-1]).chmod(0o600)
    (directory / "bin").mkdir()
    program = directory / "bin/run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o711)
    (directory / "current").symlink_to("bin")
    return directory


def test_archives_of_equal_trees_are_equal(tmp_path: Path) -> None:
    names = ["b/one", "a", "c/d/e"]
    made = []
    for number, order in enumerate((names, sorted(names), sorted(names)[::-1])):
        where = tree(tmp_path / f"tree-{number}", order)
        (where / "a").chmod(0o644 if number else 0o600)
        os.utime(where / "a", (number, number))
        write_gz(tmp_path / f"{number}.tar.gz", members_in(where, "named"), 1700000000)
        made.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert made[0] == made[1] == made[2]


def test_members_belong_to_root_in_one_folder(tmp_path: Path) -> None:
    file = io.BytesIO()
    write_tar(file, tree(tmp_path / "tree", ["a"]), "named", 1700000000)
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        members = archive.getmembers()
    assert [each.name for each in members] == [
        *("named", "named/a", "named/bin", "named/bin/run", "named/current"),
    ]
    assert {(each.uid, each.uname, each.mtime) for each in members} == {(0, "root", 1700000000)}
    assert {each.name: oct(each.mode) for each in members if each.isreg()} == {
        "named/a": "0o644",
        "named/bin/run": "0o755",
    }


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a file"):
        write_tar(io.BytesIO(), tmp_path, "named", 0)


def test_the_lock_names_every_package_for_every_processor() -> None:
    packages = read_lock(LOCK.read_text(), Package)
    for processor in PROCESSORS.values():
        mine = [each for each in packages if each.architecture == processor.debian]
        assert sorted(each.name for each in mine) == sorted(NAMES)
    assert all(len(each.sha256) == 64 for each in packages)
    assert lock_text(debian_packages.COLUMNS, packages) == LOCK.read_text()
    # One interpreter makes the bytecode of all.
    assert len({each.version for each in packages if "python" in each.name}) == 1


def test_the_list_of_parts_is_one_row_a_part() -> None:
    package = Package("amd64", "libc6", "2.41-12+deb13u5", "ab" * 32, "pool/libc6.deb")
    wheel = Wheel(Path("click-8.5.1-py3-none-any.whl"), "click", "8.5.1", (), "BSD-3-Clause")
    parts = [
        sbom.of_debian(package, "one.deb"),
        sbom.of_debian(package, "one.tar.gz"),
        sbom.of_wheel(wheel, "cd" * 32, "one.tar.gz"),
    ]
    told = sbom.text(parts, "0.1.0", "0" * 40, 1700000000)
    assert told == sbom.text(reversed(parts), "0.1.0", "0" * 40, 1700000000)
    assert '"timestamp": "2023-11-14T22:13:20Z"' in told
    assert told.count('"type": "library"') == 2
    assert '"purl": "pkg:deb/debian/libc6@2.41-12%2Bdeb13u5?arch=amd64"' in told
    assert '"name": "BSD-3-Clause"' in told


def test_a_wheel_that_leads_out_of_the_bundle_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "bad-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../out.py", "")
    with pytest.raises(ValueError, match="leaves the folder"):
        unpack(wheel, tmp_path / "packages")
    assert not (tmp_path / "out.py").exists()
