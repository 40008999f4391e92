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


SPEAKER: Final = COLLECTION / "playbooks/speaker.yml"
HERE: Final = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
ONE: Final = {
    "all": {"children": {"penstock_broker": {"hosts": {"one": {"penstock_broker_id": 1}}}}}
}
OTHER: Final = "[penstock_broker]\nother penstock_broker_id=1\n"


def test_examples_in_one_folder_are_not_mixed(ansible: None, tmp_path: Path) -> None:
    one, *others = (each for each in EXAMPLES if each.parent.name == TOGETHER)
    options = [word for each in others for word in ("-i", str(each))]
    mixed = play(tmp_path, SPEAKER, yaml.safe_load(one.read_text()), *options, variables=HERE)
    assert mixed.code != 0
    assert mixed.failure == "An inventory has one cluster, and this one has dc1, dc2, offline."


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("hosts.ini", f"{OTHER}[all:vars]\npenstock_cluster = dc2\n"),
        ("group_vars/all.yml", "penstock_cluster: 'dc2'  # as it is called\n"),
        ("group_vars/all/10-names.yaml", 'more: 1\n"penstock_cluster": dc2\n'),
        ("group_vars/all", '{"more": 1,\n "penstock_cluster": "dc2"}\n'),
    ],
)
def test_what_a_file_of_an_inventory_says_to_all_is_seen(
    ansible: None, tmp_path: Path, where: str, said: str
) -> None:
    folder = tmp_path / "dc2"
    (folder / where).parent.mkdir(parents=True)
    (folder / "hosts.ini").write_text(OTHER)
    (folder / where).write_text(said)
    named = {"all": {**ONE["all"], "vars": {"penstock_cluster": "dc1"}}}
    mixed = play(tmp_path, SPEAKER, named, "-i", str(folder / "hosts.ini"), variables=HERE)
    assert mixed.code != 0
    assert mixed.failure == "An inventory has one cluster, and this one has dc1, dc2."


def test_a_cluster_may_be_in_several_files_and_be_called_otherwise(
    ansible: None, tmp_path: Path
) -> None:
    more = tmp_path / "more.ini"
    more.write_text(f"# penstock_cluster=dc2\n{OTHER}")
    named = {"all": {**ONE["all"], "vars": {"penstock_cluster": "dc1"}}}
    variables = {**HERE, "penstock_cluster": "as-typed"}
    played = play(tmp_path, SPEAKER, named, "-i", str(more), variables=variables)
    assert played.code == 0, played.said


def of(program: str, found: Mapping[tuple[str, str], Any]) -> list[Any]:
    return [each for (of, _), each in found.items() if of == program]
