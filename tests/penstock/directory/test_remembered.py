"""`up.json`, and the variables for a shell."""

import subprocess
from pathlib import Path

import pytest

from penstock.directory.errors import DirectoryUnusable
from penstock.directory.places import Addresses, Places, Ports
from penstock.directory.preparing import prepare
from penstock.directory.remembered import remember, remembered_ports


def test_ports_are_remembered(tmp_path: Path) -> None:
    assert remembered_ports(tmp_path) == Ports()
    ports = Ports.beginning_at(20_000)
    remember(Places(tmp_path), ports)
    assert remembered_ports(tmp_path) == ports
    assert [each.name for each in tmp_path.iterdir()] == ["up.json"]


def test_what_is_not_known_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(
        '{"version": 1, "ports": {"broker": 1234, "mirror": 1, "audit": 99999}, "more": []}'
    )
    assert remembered_ports(tmp_path) == Ports()._replace(broker=1234)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "up.json"),
        ("\xff", "up.json"),
        ("[1]", "delete it to have the usual ports"),
        ('{"version": 1, "ports": {"broker": "9092"}}', "broker|ports"),
        ('{"version": 2, "ports": {}}', "version 2"),
        ("[" * 100_000, "up.json"),
        ('{"version": 1, "ports": {}, "x": ' + "[" * 60_000, "delete it"),
        ('{"version": 1, "ports": {"broker": 2000, "audit": 2000}}', "one port twice"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "up.json").write_text(text, "latin-1")
    with pytest.raises(DirectoryUnusable, match=said):
        remembered_ports(tmp_path)


def test_in_what_is_no_directory_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert remembered_ports(tmp_path / "file") == Ports()


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "up.json").mkdir()
    with pytest.raises(DirectoryUnusable, match="cannot be read"):
        remembered_ports(tmp_path)


def test_a_shell_reads_the_environment(tmp_path: Path) -> None:
    ports = Ports.beginning_at(20_000)
    prepare(Places(tmp_path), ports, [])
    said = subprocess.run(
        ["/bin/sh", "-c", ". ./environment; env"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    addresses = Addresses.of(ports)
    assert {line for line in said.splitlines() if line.startswith("PENSTOCK_")} == {
        f"PENSTOCK_BOOTSTRAP={addresses.brokers}",
        f"PENSTOCK_REGISTRY={addresses.registry}",
        f"PENSTOCK_AUDIT={addresses.audit}",
        f"PENSTOCK_AGENT={addresses.agent}",
        f"PENSTOCK_BROKER_HTTP={addresses.broker_http}",
    }


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    with pytest.raises(DirectoryUnusable, match=r"environment.* cannot be written"):
        prepare(Places(tmp_path), Ports(), [])
