"""The collection's roles have specifications that agree with their defaults."""

import re
from pathlib import Path
from typing import Any

import pytest

from deploy.role_pages import defaults, roles, specs
from harness.hosts.ansible_tools import COLLECTION

ROLES = sorted(path for path in (COLLECTION / "roles").iterdir() if path.is_dir())
KINDS = {"str", "int", "float", "bool", "list", "dict", "path", "raw"}
SHARED = COLLECTION / "roles" / "common"


def test_every_role_and_playbook_is_in_the_readme() -> None:
    assert roles() == ROLES
    readme = (COLLECTION / "README.md").read_text()
    playbooks = (COLLECTION / "playbooks").glob("*.yml")
    assert [path.stem for path in (*ROLES, *playbooks) if f"`{path.stem}`" not in readme] == []


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
    # ansible-doc shows them. Ansible would evaluate one that is computed at each use of the role.
    literal = {name: value for name, value in defaults(role).items() if "{{" not in str(value)}
    for entry in found.values():
        options = {n: o for n, o in entry.get("options", {}).items() if not o.get("required")}
        assert {n: o["default"] for n, o in options.items() if "default" in o} == {
            name: value for name, value in literal.items() if name in options
        }


def test_no_file_is_empty() -> None:
    assert [path for path in COLLECTION.rglob("*.yml") if not path.stat().st_size] == []


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
