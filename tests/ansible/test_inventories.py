"""The inventories that are examples: what roles make of them is taken by the programs, and of two
datacenters with an offline cluster each knows what it must of the others."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from audit.config import AuditConfig
from harness.ansible_tools import COLLECTION, play
from loader.config import LoaderConfig
from mirror.config import MirrorConfig
from penstock.config.configuration import load
from registry.config import RegistryConfig

EXAMPLES: Final = sorted((COLLECTION / "inventories").glob("*/*.yml"))
TOGETHER: Final = "two_datacenters"
KINDS: Final[Mapping[str, type[Any]]] = {
    "audit": AuditConfig,
    "loader": LoaderConfig,
    "mirror": MirrorConfig,
    "registry": RegistryConfig,
}
# As it is written on a host.
_WRITTEN: Final = "{{ penstock_%s_whole | penstock.pipeline.plain_numbers | to_nice_json }}"

pytestmark = pytest.mark.not_quick("starts Ansible")


def configurations(folder: Path, inventory: Path) -> dict[tuple[str, str], Any]:
    """As the roles would write them on each host, by program and host. No host is connected to."""
    document = [
        {
            "name": f"The {program}",
            "hosts": f"penstock_{program}",
            "connection": "local",
            "gather_facts": False,
            # Only for its variables.
            "roles": [{"role": f"penstock.pipeline.{program}", "when": False}],
            "post_tasks": [
                {
                    "name": "Write it down",
                    "ansible.builtin.copy": {
                        "content": _WRITTEN % program,
                        "dest": f"{folder}/{program}-{{{{ inventory_hostname }}}}.yaml",
                        "mode": "0600",
                    },
                    "vars": {"ansible_python_interpreter": "/usr/bin/python3"},
                }
            ],
        }
        for program in KINDS
    ]
    played = play(folder, document, yaml.safe_load(inventory.read_text()))
    assert played.code == 0, played.said
    (folder / "zookeeper-secret").write_text("a secret")
    found = {}
    for path in folder.glob("*-*.yaml"):
        program, host = path.stem.split("-", 1)
        environment = {"CREDENTIALS_DIRECTORY": str(folder)}
        found[program, host] = load(KINDS[program], path, (), environment)
    return found


@pytest.fixture(scope="module")
def found(
    ansible: None, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Path, dict[tuple[str, str], Any]]:
    """Of all examples."""
    return {each: configurations(tmp_path_factory.mktemp(each.stem), each) for each in EXAMPLES}


@pytest.mark.parametrize("inventory", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_programs_take_what_their_roles_write(
    found: Mapping[Path, dict[tuple[str, str], Any]], inventory: Path
) -> None:
    groups = yaml.safe_load(inventory.read_text())["all"]["children"]
    wanted = {
        (program, host)
        for program in KINDS
        for host in groups.get(f"penstock_{program}", {}).get("hosts", ())
    }
    assert found[inventory].keys() == wanted


def test_a_cluster_knows_of_the_others_what_it_must(
    found: Mapping[Path, dict[tuple[str, str], Any]],
) -> None:
    sites = {path.stem: each for path, each in found.items() if path.parent.name == TOGETHER}
    registries = {name: of("registry", each)[0] for name, each in sites.items()}
    mirrors = {each.source.cluster: each for each in of("mirror", sites["offline"])}
    (audit,) = of("audit", sites["offline"])

    ranges = sorted((each.ids for each in registries.values()), key=lambda ids: ids.start)
    assert all(before.stop <= after.start for before, after in pairwise(ranges))
    assert audit.all_clusters.keys() == sites.keys()
    assert mirrors.keys() == sites.keys() - {"offline"}
    for name, mirror in mirrors.items():
        assert mirror.schemas
        assert f"{name}._schemas" in {each.topic for each in registries["offline"].mirrored}
        for brokers in (mirror.source.brokers, audit.all_clusters[name].brokers):
            assert set(brokers) == set(registries[name].brokers)


def of(program: str, found: Mapping[tuple[str, str], Any]) -> list[Any]:
    return [each for (of, _), each in found.items() if of == program]
