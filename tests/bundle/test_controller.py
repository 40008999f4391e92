"""What a controller installs from a release folder: the collection, and the command `penstock`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest

from cluster.zookeeper_server.jars import find_tls_class_path
from deploy.bundle import collection, wheels
from deploy.bundle.archives import sha256
from deploy.bundle.downloads import zookeeper_jars
from deploy.bundle.downloads.locks import lock_text, read_lock
from harness.hosts.ansible_tools import ansible_tool
from tests.bundle.made_wheels import made_wheel, made_wheelhouse

ROOT: Final = Path(__file__).resolve().parents[2]
VERSION: Final = "0.1.0+g0123456789"
MOMENT: Final = 1_700_000_000


def galaxy(folder: Path, *words: str) -> str:
    program = ansible_tool("ansible-galaxy")
    if program is None:
        pytest.skip("no ansible-galaxy")
    return subprocess.check_output(
        [program, "collection", *words],
        text=True,
        env={**os.environ, "HOME": str(folder), "ANSIBLE_HOME": str(folder)},
    )


def contents(path: Path) -> dict[str, object]:
    """All files, and what the two lists say but for their order, their sum and the version."""
    with tarfile.open(path) as tar:
        files = {each.name: file.read() for each in tar if (file := tar.extractfile(each))}
    rows, about = json.loads(files.pop("FILES.json")), json.loads(files.pop("MANIFEST.json"))
    del about["file_manifest_file"]["chksum_sha256"], about["collection_info"]["version"]
    return {**files, "files": sorted(rows["files"], key=lambda row: row["name"]), "about": about}


@pytest.mark.not_quick("starts Ansible")
def test_the_collection_is_what_ansible_builds_and_installs(tmp_path: Path) -> None:
    archive = tmp_path / f"penstock-pipeline-{VERSION}.tar.gz"
    collection.write(archive, ROOT, VERSION, MOMENT)
    said = galaxy(tmp_path, "install", "--force", str(archive), "-p", str(tmp_path))
    assert f"penstock.pipeline:{VERSION} was installed successfully" in said
    source = str(ROOT / collection.FOLDER)
    galaxy(tmp_path, "build", source, "--output-path", str(tmp_path / "ansible's"))
    (expected,) = (tmp_path / "ansible's").iterdir()
    assert contents(archive) == contents(expected)


def make_release(tmp_path: Path, version: str, first: str = "pass") -> Path:
    """With a wheelhouse for this Python, of two small wheels. The command begins with `first`."""
    folder, shelf = tmp_path / "release", tmp_path / "shelf" / version
    folder.mkdir(exist_ok=True)
    main = f"def main():\n    {first}\n    print('penstock {version}')\n"
    house = made_wheelhouse(
        *(folder, version),
        made_wheel(shelf, "penstock", version, "one", module=main, command="penstock:main"),
        made_wheel(shelf, "one", "1"),
    )
    write_sums(house, version)
    script = (ROOT / "deploy/bundle/install.sh").read_text().replace("@VERSION@", version)
    (folder / f"penstock-install-{version}.sh").write_text(script)
    return folder


def command_of(folder: Path) -> str:
    return subprocess.check_output([str(folder / "penstock/bin/penstock")], text=True)


def exchange(house: Path, wheel: Path) -> None:
    """Puts another wheel of its name into the wheelhouse, whose own sum is right afterwards."""
    with tarfile.open(house) as archive, tarfile.open(house.with_suffix(".new"), "w") as to:
        for member in archive:
            if member.name.endswith(f"/{wheel.name}"):
                to.add(wheel, member.name)
            else:
                to.addfile(member, archive.extractfile(member) if member.isfile() else None)
    house.with_suffix(".new").rename(house)
    write_sums(house, VERSION)


def write_sums(house: Path, version: str) -> None:
    sums = house.parent / f"penstock-{version}.SHA256SUMS"
    sums.write_text(f"{sha256(house)}  {house.name}\n")


@pytest.mark.not_quick("runs pip")
def test_programs_are_installed_from_the_folder_alone(tmp_path: Path) -> None:
    release = make_release(tmp_path, VERSION)

    def install(words: str) -> tuple[int, str]:
        command = f"sh release/penstock-install-*.sh {words}"
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr

    assert install("penstock certificates") == (0, f"penstock {VERSION}\n")
    # Once more in its place, but with a wheel that was exchanged.
    (house,) = release.glob("*.tar")
    made_wheel(tmp_path / "shelf", "one", "1", module="print()")
    exchange(house, tmp_path / "shelf/one-1-py3-none-any.whl")
    code, text = install("penstock certificates")
    assert (code, "DO NOT MATCH" in text) == (1, True)
    assert command_of(tmp_path) == f"penstock {VERSION}\n"
    assert len(list((tmp_path / "penstock/releases").iterdir())) == 1

    (tmp_path / "mine/too").mkdir(parents=True)
    away = house.with_name(house.name.replace("linux", "other"))
    for before, words, code, expected in (
        ("", "other", 2, "usage: sh release/penstock-install-"),
        ("", "mine certificates", 1, "mine exists, and this script did not create it"),
        ("", "other gossip", 1, "this release contains no program 'gossip'"),
        ("", "other loader", 1, f"has no penstock-wheelhouse-{VERSION}-spark.tar"),
        (f"mv {house} {away}", "other agent", 1, f"has no {house.name}. It has:\n{away.name}"),
        (f"mv {away} {house}; echo x >> {house}", "other agent", 1, f"match penstock-{VERSION}"),
    ):
        subprocess.run(["sh", "-c", before or "true"], check=True)
        ended = install(words)
        assert (ended[0], expected in ended[1]) == (code, True), ended
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("mine", "penstock", "release", "shelf"),
    ]


# A kill as each of these commands of the script begins, from its trace.
STEPS: Final = """flock;mktemp;tar -xf;-m venv;pip install;--version;ln .* .previous;mv .* previous;
ln .* .current;mv .* current;ln .* .bin;mv .* bin;/penstock/bin/penstock --v;rm -rf releases/0"""


@pytest.mark.long
@pytest.mark.not_quick("runs pip")
def test_a_kill_at_any_step_leaves_a_command_that_works(tmp_path: Path) -> None:
    versions = ("0.1.0", "0.2.0", "0.3.0")
    for version in versions:
        make_release(tmp_path, version)

    # As docs/deploy.md tells operators to set it; without a PYTHON.
    path = f"{tmp_path}/penstock/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def install(version: str, step: str = "never") -> int:
        script = f"release/penstock-install-{version}.sh"
        with subprocess.Popen(
            ["sh", "-x", script, "penstock", "certificates"],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if re.search(step, line):
                    os.killpg(process.pid, signal.SIGKILL)
        return process.returncode

    assert install(versions[0]) == install(versions[1]) == 0
    for step in STEPS.replace("\n", "").split(";"):
        # With the environments of both, and a third that goes.
        assert install(versions[2], step) == -signal.SIGKILL, step
        assert command_of(tmp_path) in {f"penstock {version}\n" for version in versions[1:]}, step
    assert install(versions[1]) == install(versions[2]) == 0
    make_release(tmp_path, "0.4.0", "assert '/releases/' in __import__('sys').argv[0]")
    assert install("0.4.0") == 1  # it runs, but not through the link
    assert command_of(tmp_path) == "penstock 0.3.0\n"
    folder = tmp_path / "penstock"
    kept = {str((folder / link).readlink()) for link in ("current", "previous")}
    assert {f"releases/{path.name}" for path in (folder / "releases").iterdir()} == kept
    text = (ROOT / "deploy/bundle/install.sh").read_text()
    (back,) = re.findall("ln -sfnT .* ~/penstock/current", text)
    subprocess.run(["sh", "-c", back], check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert command_of(tmp_path) == "penstock 0.2.0\n"


def test_zookeeper_runs_from_the_jars_of_the_lock(tmp_path: Path) -> None:
    """Where this fails: `python -m deploy.bundle lock`."""
    jars = read_lock(zookeeper_jars.LOCK.read_text(), zookeeper_jars.Jar)
    assert lock_text(zookeeper_jars.COLUMNS, jars) == zookeeper_jars.LOCK.read_text()
    zookeeper_jars.write(tmp_path / "jars.tar", jars, MOMENT)
    with tarfile.open(tmp_path / "jars.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    class_path = find_tls_class_path(tmp_path / "jars")
    assert {Path(path).name for path in class_path.split(":")} == {jar.file for jar in jars}
    other = [*jars[1:], zookeeper_jars.Jar(jars[0].purl, "0" * 64, jars[0].file)]
    with pytest.raises(SystemExit, match=r"does not match zookeeper-jars\.lock"):
        zookeeper_jars.write(tmp_path / "jars.tar", other, MOMENT)


def test_the_version_names_the_commit(tmp_path: Path) -> None:
    provider = f"{wheels.AIRFLOW}/airflow_providers_penstock/__init__.py"
    for name in ("pyproject.toml", "penstock/__init__.py", provider):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    wheels.stamp(tmp_path, VERSION)
    told = [f'\nversion = "{VERSION}"\n', f'\n__version__ = "{VERSION}"\n']
    assert told[0] in (tmp_path / "pyproject.toml").read_text()
    for name in ("penstock/__init__.py", provider):
        assert told[1] in (tmp_path / name).read_text()
    (tmp_path / "penstock/__init__.py").write_text('__version__ = "0.0.9"\n')
    with pytest.raises(
        SystemExit, match=r'differ: pyproject.*, penstock/__init__\.py has "0\.0\.9"'
    ):
        wheels.stamp(tmp_path, "1.0.0")
