"""What roles make of an inventory and of a release folder."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

FILTERS: dict[str, Any] = runpy.run_path(
    str(ROOT / "deploy" / "ansible" / "plugins" / "filter" / "inventory.py")
)
UNITS = sorted((ROOT / "deploy" / "systemd").glob("penstock-*.service"))
COLLECTION = ROOT / "deploy" / "ansible"


def test_releases_of_a_folder_and_why_none_is_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    files = [
        "penstock-wheelhouse-0.1.0+g12ab-py311-linux-x86_64.tar",
        "penstock-wheelhouse-0.1.0+g12ab-py313-linux-x86_64.tar",
        "penstock-agent-0.1.0+g12ab-linux-aarch64.tar.gz",
        "penstock-0.1.0+g12ab.SHA256SUMS",
        "penstock-agent-0.3.0.deb",
    ]
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    found, problem = FILTERS["releases"], FILTERS["release_problem"]
    assert found(str(folder)) == ["0.1.0+g12ab"]
    (folder / "penstock-agent-0.2.0-linux-x86_64.tar.gz").touch()
    assert found(str(folder)) == ["0.1.0+g12ab", "0.2.0"]
    for where, release, expected in (
        (folder, "0.2.0", ""),
        (
            folder,
            "",
            f"{folder} has several releases: set penstock_release to 0.1.0+g12ab or 0.2.0",
        ),
        (
            folder,
            "/srv/release",
            "penstock_release is /srv/release, and must be a version, such as",
        ),
        (tmp_path, "", f"has no release, but {folder} has one: set penstock_release_dir to that"),
        (tmp_path / "no", "", f"{tmp_path}/no on the controller has no release: build one (make"),
    ):
        said = problem(str(where), release)
        assert expected in said
        assert bool(expected) == bool(said)


def test_addresses_of_hosts_with_one_or_several_brokers() -> None:
    hosts = [
        {"inventory_hostname": "a", "ansible_host": "10.0.0.1"},
        {"inventory_hostname": "b", "penstock_address": "b.example", "ansible_host": "10.0.0.2"},
        {"inventory_hostname": "c", "brokers": [{"port": 9092}, {"port": 9093}]},
        {"inventory_hostname": "d", "ansible_host": "fd00::1"},
    ]
    assert FILTERS["addresses"](hosts, 9092, "brokers") == [
        "10.0.0.1:9092",
        "b.example:9092",
        "c:9092",
        "c:9093",
        "[fd00::1]:9092",
    ]


def test_servers_of_an_ensemble_by_their_numbers() -> None:
    hosts = [
        {"inventory_hostname": "b", "penstock_zookeeper_id": "2"},
        {"inventory_hostname": "a", "penstock_zookeeper_id": 1, "ansible_host": "10.0.0.1"},
    ]
    assert [(each["id"], each["host"]) for each in FILTERS["zookeeper_servers"](hosts, 1, "2")] == [
        (1, "10.0.0.1"),
        (2, "b"),
    ]


def test_numbers_that_a_template_made_texts() -> None:
    before = {"port": "9092", "rack": "r1", "a": ["0.5", "007", "-1", "", True, None]}
    after = {"port": 9092, "rack": "r1", "a": [0.5, "007", -1, "", True, None]}
    assert FILTERS["plain_numbers"](before) == after


def test_files_of_several_authorities_are_one(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "ca.pem").write_text("1\n")
    (tmp_path / "three" / "ca.pem").write_text("3")
    folders = [str(tmp_path / name) for name in ("one", "two", "three")]
    assert FILTERS["joined_files"](folders, "ca.pem") == "1\n3\n"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_for_several_has_files_and_data_of_its_own(unit: Path) -> None:
    program = unit.stem.removeprefix("penstock-")
    text = unit.read_text(encoding="utf-8")
    made = FILTERS["unit_of_instance"](text, program)
    lines = [line for line in made.splitlines() if "%i" in line]
    named = [line for line in lines if not line.startswith(("#", "Environment"))]
    if program == "broker":
        assert named == [
            "ExecStart=/opt/penstock/bin/penstock broker --config /etc/penstock/broker-%i.yaml",
            "StateDirectory=penstock/broker-%i",
            "WorkingDirectory=/var/lib/penstock/broker-%i",
        ]
    assert made.replace("-%i", "") == text


def test_what_a_host_installs_by_its_groups() -> None:
    extras = FILTERS["extras_of_groups"]
    assert extras(["penstock_zookeeper", "penstock_agent", "web"]) == ["agent", "broker"]
    assert extras(["penstock_agent"]) == []


def test_roles_bring_every_unit() -> None:
    brought = COLLECTION / "roles" / "common" / "files"
    for unit in (ROOT / "deploy" / "systemd").iterdir():
        assert (brought / unit.name).read_bytes() == unit.read_bytes()
