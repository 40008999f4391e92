"""All that is wrong is said at once, before anything is started."""

import importlib.util
import os
import re
import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.processes.server_process import free_ports
from penstock.directory.errors import AlreadyRunning
from penstock.directory.lock import Lock
from penstock.directory.places import MirrorPorts, Places, Ports
from penstock.up.preconditions import MODULES, java_version, problems
from tests.penstock.running import REPOSITORY, penstock


def ports() -> Ports:
    return Ports(*free_ports(len(Ports._fields)))


def up(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Of a `penstock up` that cannot start: its exit code, and its lines on stderr."""
    ended = penstock("up", *arguments, environment=environment)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.splitlines()


def test_nothing_is_wrong(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    assert problems(Places(directory), ports()) == []
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    directory.chmod(0o750)
    assert problems(Places(directory), ports()) == []
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750, "that is the user's"


def test_what_was_begun_with_one_cluster_stays_with_it(tmp_path: Path) -> None:
    """Its tables are loaded from there."""
    every = free_ports(len(MirrorPorts._fields))
    (tmp_path / "broker").mkdir()
    (wrong,) = problems(Places(tmp_path), ports(), MirrorPorts(*every))
    assert f"{tmp_path} was created without a mirror" in wrong
    (tmp_path / "mirror").mkdir()
    assert problems(Places(tmp_path), ports(), MirrorPorts(*every)) == []
    with socket.create_server(("127.0.0.1", every[0])):
        port, _ = problems(Places(tmp_path), ports(), MirrorPorts(*every))
    assert f"port {every[0]}, for the offline cluster's broker, is in use" in port


def test_who_has_a_port_is_named(tmp_path: Path) -> None:
    wanted = ports()
    with socket.create_server(("127.0.0.1", wanted.registry)):
        port, advice = problems(Places(tmp_path), wanted)
    assert port.startswith(f"port {wanted.registry}, for the registry, is in use by process ")
    assert f"process {os.getpid()} (" in port
    assert "--port-base" in advice


def test_who_has_a_port_may_have_any_name(tmp_path: Path) -> None:
    own = Path("/proc/self/comm")
    wanted, before = ports(), own.read_bytes().strip()
    own.write_bytes(b"cut amid an \xc3")
    try:
        with socket.create_server(("127.0.0.1", wanted.registry)):
            port, _ = problems(Places(tmp_path), wanted)
        assert "(cut amid an \N{REPLACEMENT CHARACTER})" in port
    finally:
        own.write_bytes(before)


def test_a_directory_in_which_nobody_can_write(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for directory, why in (
        (tmp_path / "data", ".*"),
        (tmp_path / "data" / "below", ".*"),
        (tmp_path / "link", "it is a dangling link"),
        (Path("/proc/penstock-data"), ".*"),
    ):
        (said,) = problems(Places(directory), ports())
        assert re.match(rf"cannot write to {directory} \({why}\): choose another --dir", said)


def test_another_one_that_runs_is_named_and_its_ports_are_not(tmp_path: Path) -> None:
    wanted = ports()
    with Lock(tmp_path / "lock"), socket.create_server(("127.0.0.1", wanted.broker)):
        (said,) = problems(Places(tmp_path), wanted)
        with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
            Lock(tmp_path / "lock")
    assert f"in use by another penstock up (process {os.getpid()})" in said
    assert problems(Places(tmp_path), wanted) == []


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("content")
    (tmp_path / "lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        Lock(tmp_path / "lock")
    assert precious.read_text() == "content"
    (said,) = problems(Places(tmp_path), ports())
    assert said.startswith(f"{tmp_path}/lock cannot be used (")


def test_whoever_wrote_the_lock_file_is_not_believed_too_much(tmp_path: Path) -> None:
    with Lock(tmp_path / "lock"):
        (tmp_path / "lock").write_bytes(b"\x1b[31m" * 1_000)
        (said,) = problems(Places(tmp_path), ports())
    assert "in use by another penstock up: stop" in said


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_versions_of_java(said: str, version: int | None) -> None:
    assert java_version(said) == version


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, but Spark needs at least 17: apt"),
        ("exit 1", "does not report its version: apt install default-jre-headless"),
    ],
)
def test_a_java_that_will_not_do(tmp_path: Path, script: str, said: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    (tmp_path / "data").write_text("")
    base = ("--port-base", str(free_ports(1)[0]), "--dir", str(tmp_path / "data"))
    code, (about_java, about_directory, *_) = up(*base, JAVA_HOME=str(tmp_path))
    assert code == 1
    assert about_java.startswith(f"penstock up: {java} ")
    assert said in about_java
    assert "cannot write to" in about_directory, "all that is wrong is said at once"


def test_a_pattern_that_the_shell_has_expanded() -> None:
    code, (said,) = up("--follow", "a.log", "b.log")
    assert code == 2
    assert "unexpected argument" in said


@pytest.mark.not_quick("starts a process")
def test_where_there_is_no_folder_any_more(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$0" -m penstock up', sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "the current directory was removed: cd into another one" in ended.stderr


def test_no_java(tmp_path: Path) -> None:
    base = ("--port-base", str(free_ports(1)[0]), "--dir", str(tmp_path / "data"))
    code, (said, *_) = up(*base, JAVA_HOME="", PATH=str(tmp_path))
    assert code == 1
    assert said == (
        "penstock up: ZooKeeper and Spark need Java, which is neither on the PATH nor in "
        "JAVA_HOME: apt install default-jre-headless"
    )


def test_every_extra_is_looked_for() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras: Mapping[str, list[str]] = project["optional-dependencies"]
    (all_of_them,) = extras["all"]
    wanted = {
        re.split(r"[^\w-]", requirement)[0].replace("-", "_")
        for extra in all_of_them.removeprefix("penstock[").removesuffix("]").split(",")
        for requirement in extras[extra]
    }
    assert wanted == set(MODULES)
    assert all(importlib.util.find_spec(each) for each in MODULES)
