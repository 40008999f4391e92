"""Repositories of a release, read by apt and dnf, with the key that signed them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.bundle.archives import sha256
from deploy.bundle.packages import debian_package, host_package, rpm_package
from deploy.bundle.targets import PROCESSORS
from tests.bundle.package_managers import dnf, signing_key

_REPOSITORY: Final = Path(__file__).resolve().parents[2]
_MOMENT: Final = 1700000000
_MISSING: Final = [each for each in ("rpmbuild", "createrepo_c", "dnf") if not shutil.which(each)]

pytestmark = [
    pytest.mark.not_quick("builds packages, and starts apt and dnf"),
    pytest.mark.skipif(bool(_MISSING), reason="apt install rpm createrepo-c dnf"),
]


@pytest.fixture
def key() -> Iterator[str]:
    with signing_key() as name:
        yield name


def a_release(folder: Path, work: Path) -> Path:
    """Packages of a bundle of one file, for two processors, with their checksums."""
    folder.mkdir()
    (work / "tree/bin").mkdir(parents=True)
    (work / "tree/bin/penstock").write_text("#!/bin/sh\n")
    content = work / "content"
    host_package.assemble(content, work / "tree", _REPOSITORY, "1", _MOMENT)
    for name, cpu in PROCESSORS.items():
        deb, rpm = (f"penstock-agent_1_{cpu.debian}.deb", f"penstock-agent-1-1.{name}.rpm")
        debian_package.build(folder / deb, content, cpu, version="1", time=_MOMENT)
        rpm_package.build(folder / rpm, content, cpu, version="1", time=_MOMENT)
    rows = [f"{sha256(path)}  {path.name}\n" for path in folder.iterdir()]
    (folder / "penstock-1.SHA256SUMS").write_text("".join(rows))
    bill = {"metadata": {"timestamp": "2023-11-14T22:13:20Z"}}
    (folder / "penstock-1.cdx.json").write_text(json.dumps(bill))
    return folder


def written(out: Path, release: Path, key: str) -> subprocess.CompletedProcess[str]:
    options = ["--release", str(release), "--out", str(out), "--key", key]
    command = [sys.executable, "-m", "deploy.bundle.packages.repositories", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=_REPOSITORY)


def apt(state: Path, out: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """apt with settings of its own, which trusts the repositories' key only."""
    for each in ("lists/partial", "cache/archives/partial"):
        (state / each).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    source = f"deb [signed-by={out}/penstock.asc arch=amd64] file:{out}/apt stable main\n"
    (state / "sources.list").write_text(source)
    settings = {
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Sandbox::User": "root",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    apt_get = ["apt-get", "--quiet=2", *options, *command]
    return subprocess.run(apt_get, capture_output=True, text=True, check=False, cwd=state)


def test_apt_and_dnf_read_what_the_key_signed(tmp_path: Path, key: str) -> None:
    release, out = a_release(tmp_path / "release", tmp_path / "work"), tmp_path / "out"
    ended = written(out, release, key)
    assert ended.returncode == 0, ended.stderr
    assert (updated := apt(tmp_path / "apt", out, "update", "--error-on=any")).returncode == 0, (
        updated.stderr
    )
    assert apt(tmp_path / "apt", out, "download", "penstock-agent").returncode == 0
    (deb,) = (tmp_path / "apt").glob("*.deb")
    assert sha256(deb) == sha256(release / "penstock-agent_1_amd64.deb")
    listed = dnf(tmp_path / "dnf", out, "list", "--available")
    assert "penstock-agent.x86_64" in listed.stdout, listed.stderr
    keys = ["rpmkeys", "--dbpath", str(tmp_path / "rpm")]
    subprocess.run([*keys, "--import", str(out / "penstock.asc")], check=True)
    for rpm in (out / "yum").glob("*.rpm"):
        checked = subprocess.run([*keys, "-Kv", str(rpm)], check=True, capture_output=True)
        assert b"Signature, key ID" in checked.stdout
    assert "exists" in written(out, release, key).stderr

    for index, tool, command in (
        (out / "apt/dists/stable/InRelease", apt, ["update", "--error-on=any"]),
        (out / "yum/repodata/repomd.xml", dnf, ["makecache"]),
    ):
        index.write_text(index.read_text().replace("17000", "17001").replace("Penst", "penst"))
        refused = tool(tmp_path / f"changed-{command[0]}", out, *command)
        assert refused.returncode != 0, refused.stdout
    (release / "penstock-agent-1-1.x86_64.rpm").write_bytes(b"another")
    ended = written(tmp_path / "again", release, key)
    assert "x86_64.rpm does not match" in ended.stderr
    assert not (tmp_path / "again").exists()
