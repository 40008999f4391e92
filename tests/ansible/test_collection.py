"""The shape of the collection, held: specs, pages, and what is in its archive."""

import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.role_pages import defaults, roles, specs
from harness.ansible_tools import COLLECTION, ansible_tool, environment

ROLES = sorted(path for path in (COLLECTION / "roles").iterdir() if path.is_dir())
KINDS = {"str", "int", "float", "bool", "list", "dict", "path", "raw"}
SHARED = COLLECTION / "roles" / "common"


def run(folder: Path, *command: str) -> str:
    program = ansible_tool(command[0])
    assert program is not None
    ended = subprocess.run(
        [program, *command[1:]],
        cwd=COLLECTION,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_every_role_has_specs() -> None:
    assert roles() == ROLES


@pytest.mark.parametrize("role", roles(), ids=lambda role: role.name)
def test_specs_and_defaults_agree(role: Path) -> None:
    found = specs(role)
    assert "main" in found
    named: set[str] = set()
    for spec in found.values():
        assert spec["short_description"]
        named |= spec.get("options", {}).keys()
        check_options(spec.get("options", {}))
    assert defaults(role).keys() - named == set(), "not in meta/argument_specs.yml"
    shared = defaults(SHARED).keys()
    own = tuple(f"penstock_{each}" for each in (role.name, role.name.rstrip("s")))
    assert [each for each in named - shared if not each.startswith(own)] == []
    twice = [
        name
        for name, option in found["main"].get("options", {}).items()
        if "default" in option and name in defaults(role)
    ]
    assert twice == [], "their defaults are in defaults/main.yml"


def test_the_table_of_ports_is_that_of_the_defaults() -> None:
    page = (COLLECTION.parents[1] / "docs" / "deploy.md").read_text()
    rows = re.findall(r"^\|.*\| (\d+) \| `(penstock_\w+_port)` \|", page, re.MULTILINE)
    everywhere = [defaults(role).items() for role in roles()]
    ports = [(str(value), name) for each in everywhere for name, value in each if "_port" in name]
    assert sorted(rows) == sorted(ports)


def check_options(options: dict[str, Any]) -> None:
    for name, option in options.items():
        assert option.get("description"), name
        assert option.get("type", "str") in KINDS, name
        check_options(option.get("options", {}))


@pytest.mark.not_quick("starts Ansible")
def test_playbooks_can_be_read(ansible: None, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"penstock_broker": {"hosts": {"here": {}}}}))
    playbooks = sorted(map(str, (COLLECTION / "playbooks").glob("*.yml")))
    assert playbooks
    run(tmp_path, "ansible-playbook", "-i", str(hosts), "--syntax-check", *playbooks)


@pytest.mark.not_quick("starts Ansible")
def test_the_archive_has_what_links_lead_to(ansible: None, tmp_path: Path) -> None:
    run(tmp_path, "ansible-galaxy", "collection", "build", "--output-path", str(tmp_path))
    (archive,) = tmp_path.glob("penstock-pipeline-*.tar.gz")
    with tarfile.open(archive) as tar:
        members = {each.name: each for each in tar}
    links = {name: each.linkname for name, each in members.items() if each.issym() or each.islnk()}
    lead_to = {name: os.path.normpath(Path(name).parent / to) for name, to in links.items()}
    assert [name for name, to in lead_to.items() if to not in members] == []
    rules = "roles/monitoring/files/prometheus/penstock-broker.rules.yaml"
    assert members[rules].size == (COLLECTION / rules).stat().st_size
    to = tmp_path / "installed"
    install = ("ansible-galaxy", "collection", "install", str(archive), "--offline", "--force")
    assert "was installed successfully" in run(tmp_path, *install, "-p", str(to))
    assert (to / "ansible_collections/penstock/pipeline/MANIFEST.json").exists()
