"""`up.json`, the variables for a shell, and the programs' log files."""

import os
import subprocess
from pathlib import Path

import pytest

from penstock.directory.errors import DirectoryUnusable
from penstock.directory.locks import Locks
from penstock.directory.log_files import cut, last_lines, open_log, size
from penstock.directory.places import Addresses, MirrorPorts, Places, Ports
from penstock.directory.preparation import prepare
from penstock.directory.saved_start import SavedStart, load_start, save_start


def test_ports_are_remembered(tmp_path: Path) -> None:
    assert load_start(tmp_path) == SavedStart(there_was_one=False)
    start = SavedStart(Ports.beginning_at(20_000), secure=True)
    save_start(Places(tmp_path), start)
    assert load_start(tmp_path) == start
    assert [each.name for each in tmp_path.iterdir()] == ["up.json"]


def test_a_mirror_is_remembered(tmp_path: Path) -> None:
    mirror = MirrorPorts.beginning_at(20_000)
    assert mirror[0] == Ports.beginning_at(20_000)[-1] + 1
    start = SavedStart(Ports.beginning_at(20_000), mirror=mirror)
    save_start(Places(tmp_path), start)
    assert load_start(tmp_path) == start
    # It is there for good: without the file, only its ports are the usual ones.
    (tmp_path / "mirror").mkdir()
    (tmp_path / "up.json").unlink()
    assert load_start(tmp_path).mirror == MirrorPorts()


def test_what_is_not_known_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(
        '{"version": 1, "ports": {"broker": 1234, "mirror": 1, "audit": 99999}, "more": []}'
    )
    assert load_start(tmp_path) == SavedStart(Ports()._replace(broker=1234))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "up.json"),
        ("\xff", "up.json"),
        ("[1]", "delete it to start with the usual ports"),
        ('{"version": 1, "ports": {"broker": "9092"}}', "broker|ports"),
        ('{"version": 2, "ports": {}}', "version 2"),
        ("[" * 100_000, "up.json"),
        ('{"version": 1, "ports": {}, "x": ' + "[" * 60_000, "delete it"),
        ('{"version": 1, "ports": {"broker": 2000, "audit": 2000}}', "a port twice"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "up.json").write_text(text, "latin-1")
    with pytest.raises(DirectoryUnusable, match=said):
        load_start(tmp_path)


def test_in_what_is_no_directory_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert load_start(tmp_path / "file") == SavedStart(there_was_one=False)


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "up.json").mkdir()
    with pytest.raises(DirectoryUnusable, match="cannot be read"):
        load_start(tmp_path)


def test_where_it_is_not_said_who_has_keys_is_behind_locks(tmp_path: Path) -> None:
    locks = Locks.of(Places(tmp_path))
    locks.authority.mkdir(parents=True)
    locks.ca.touch()
    assert load_start(tmp_path).secure, "up.json was deleted, to have the usual ports"
    (tmp_path / "up.json").write_text('{"version": 1, "ports": {}}')
    assert load_start(tmp_path).secure
    save_start(Places(tmp_path), SavedStart(secure=False))
    assert not load_start(tmp_path).secure, "they were taken off"


PORTS = Ports.beginning_at(20_000)


def sourced(directory: Path, **before: str) -> set[str]:
    """What a shell has for commands, afterwards."""
    said = subprocess.run(
        ["/bin/sh", "-c", ". ./environment; env"],
        cwd=directory,
        env=before,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {line for line in said.splitlines() if line.startswith("PENSTOCK_")}


def test_a_shell_reads_the_environment(tmp_path: Path) -> None:
    prepare(Places(tmp_path), PORTS, [])
    addresses = Addresses.of(PORTS)
    assert sourced(tmp_path, PENSTOCK_SECURITY="/of/another") == {
        f"PENSTOCK_BOOTSTRAP={addresses.brokers}",
        f"PENSTOCK_REGISTRY={addresses.registry}",
        f"PENSTOCK_AUDIT={addresses.audit}",
        f"PENSTOCK_AGENT={addresses.agent}",
        f"PENSTOCK_BROKER_HTTP={addresses.broker_http}",
        f"PENSTOCK_UP={tmp_path}",
    }


def test_behind_locks_the_environment_says_how_to_get_in(tmp_path: Path) -> None:
    directory = tmp_path / "it's $HOME"
    directory.mkdir()
    prepare(Places(directory), PORTS, [], secure=True)
    said = sourced(directory)
    assert {
        "PENSTOCK_BOOTSTRAP=127.0.0.1:20001",
        "PENSTOCK_REGISTRY=https://127.0.0.1:20003",
        "PENSTOCK_AUDIT=https://127.0.0.1:20004",
        f"PENSTOCK_UP={directory}",
        f"PENSTOCK_SECURITY={directory}/security/brokers.yaml",
        f"PENSTOCK_REGISTRY_SECURITY={directory}/security/registry.yaml",
        f"PENSTOCK_AUDIT_SECURITY={directory}/security/audit.yaml",
    } <= said


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    with pytest.raises(DirectoryUnusable, match=r"environment.* cannot be written"):
        prepare(Places(tmp_path), Ports(), [])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "broker.log"


def test_a_long_file_is_cut_under_its_writers_hands(path: Path) -> None:
    descriptor = open_log(path)
    try:
        os.write(descriptor, b"a" * 99 + b"\n")
        assert not cut(path, longest=100)
        os.write(descriptor, b"b\n")
        assert cut(path, longest=100)
        os.write(descriptor, b"after\n")
        assert path.read_bytes() == b"after\n"
        assert path.with_name("broker.log.1").read_bytes() == b"a" * 99 + b"\nb\n"
        os.write(descriptor, b"c" * 100)
        assert cut(path, longest=100)
    finally:
        os.close(descriptor)
    assert path.with_name("broker.log.1").read_bytes() == b"after\n" + b"c" * 100
    assert sorted(each.name for each in path.parent.iterdir()) == ["broker.log", "broker.log.1"]


def test_it_is_cut_even_if_nothing_can_be_kept(path: Path) -> None:
    os.close(open_log(path))
    path.write_bytes(b"a" * 101)
    path.with_name("broker.log.1").mkdir()
    assert cut(path, longest=100)
    assert size(path) == 0


def test_links_are_not_written_through(path: Path, tmp_path: Path) -> None:
    precious, kept = tmp_path / "precious", path.with_name("broker.log.1")
    precious.write_text("content")
    os.close(open_log(path))
    kept.symlink_to(precious)
    path.write_bytes(b"a" * 101)
    assert cut(path, longest=100)
    assert (precious.read_text(), kept.is_symlink()) == ("content", False)
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        open_log(path)


def test_a_file_that_is_not_there_is_not_long(path: Path) -> None:
    assert (size(path), cut(path), last_lines(path, 0, 5)) == (0, False, ())


def test_the_last_lines(path: Path) -> None:
    os.close(open_log(path))
    path.write_bytes(b"old\n" + b"x" * 20_000 + b"\n\n  \nfirst \x1b[31m\nl\xe4st")
    assert last_lines(path, 4, 2) == ("first \\x1b[31m", "l\N{REPLACEMENT CHARACTER}st")
    long, *rest = last_lines(path, 4, 5)
    assert (len(long), len(rest)) == (500, 2)
    assert last_lines(path, size(path), 5) == ()
    assert last_lines(path, size(path) + 1, 1) == ("l\N{REPLACEMENT CHARACTER}st",), "it was cut"
