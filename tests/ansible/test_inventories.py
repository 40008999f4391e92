"""The inventories that are examples: what roles make of them is taken by the programs, and of two
datacenters with an offline cluster each knows what it must of the others."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from audit.configuration.config import AuditConfig
from harness.hosts.ansible_tools import COLLECTION, play
from loader.config import LoaderConfig
from mirror.config import MirrorConfig
from penstock.config.client_profile import ClientProfile
from penstock.config.configuration import load
from registry.config import RegistryConfig
from tests.ansible.conftest import AWAY, HERE

EXAMPLES: Final = sorted((COLLECTION / "inventories").glob("*/*.yml"))
TOGETHER: Final = "two_datacenters"
KINDS: Final[Mapping[str, type[Any]]] = {
    "audit": AuditConfig,
    "loader": LoaderConfig,
    "mirror": MirrorConfig,
    "registry": RegistryConfig,
    "client": ClientProfile,
}
Found = Mapping[Path, dict[tuple[str, str], Any]]
UNIT: Final = "unit"
SERVERS: Final = "penstock_broker:penstock_registry:penstock_audit"
HOSTS: Final = {"client": SERVERS, UNIT: "penstock_zookeeper"}
ROLES: Final = {"client": "common", UNIT: "zookeeper"}
VARIABLES: Final = {"client": "penstock_common_client", UNIT: "penstock_zookeeper_service"}

pytestmark = pytest.mark.not_quick("starts Ansible")


def _written(program: str) -> str:
    """As on a host."""
    variable = VARIABLES.get(program, f"penstock_{program}_full_config")
    return f"{{{{ {variable} | penstock.pipeline.plain_numbers | to_nice_json }}}}"


def configurations(folder: Path, inventory: Path) -> dict[tuple[str, str], Any]:
    """As the roles would write them on each host, by program and host. No host is connected to."""
    document = [
        {
            "name": program,
            "hosts": HOSTS.get(program, f"penstock_{program}"),
            "gather_facts": False,
            # Only for its variables.
            "roles": [{"role": f"penstock.pipeline.{ROLES.get(program, program)}", "when": False}],
            "post_tasks": [{"name": "Shown", "ansible.builtin.debug": {"msg": _written(program)}}],
        }
        for program in (*KINDS, UNIT)
    ]
    played = play(folder, document, yaml.safe_load(inventory.read_text()))
    assert played.code == 0, played.said
    (folder / "zookeeper-secret").write_text("a secret")
    environment = {"CREDENTIALS_DIRECTORY": str(folder)}
    found: dict[tuple[str, str], Any] = {}
    for program, host, text in (
        (result["play"], result["host"], result["msg"])
        for name, result in played.tasks
        if name == "Shown"
    ):
        path = folder / f"{program}-{host}.yaml"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        kind = KINDS.get(program)
        found[program, host] = load(kind, path, (), environment) if kind else path.read_text()
    return found


@pytest.fixture(scope="module")
def found(ansible: None, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Of all examples."""
    return {each: configurations(tmp_path_factory.mktemp(each.stem), each) for each in EXAMPLES}


@pytest.mark.parametrize("inventory", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_programs_take_what_their_roles_write(found: Found, inventory: Path) -> None:
    groups = yaml.safe_load(inventory.read_text())["all"]["children"]
    wanted = {
        (program, host)
        for program in (*KINDS, UNIT)
        for group in HOSTS.get(program, f"penstock_{program}").split(":")
        for host in groups.get(group, {}).get("hosts", ())
    }
    assert found[inventory].keys() == wanted


def test_a_cluster_knows_of_the_others_what_it_must(found: Found) -> None:
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


def test_operators_find_their_own_cluster(found: Found) -> None:
    for path, programs in found.items():
        is_locked = yaml.safe_load(path.read_text())["all"]["vars"]["penstock_tls"]
        for profile in of("client", programs):
            assert profile.audit
            assert len(profile.broker_http) == len(profile.brokers) > 0
            for each in (profile.security, profile.audit_security, profile.zookeeper_security):
                shown = each.tls.certificate if each.tls else ""
                assert shown == ("/etc/penstock/tls/operator.pem" if is_locked else "")


def test_other_machines_reach_the_servers_of_an_ensemble(found: Found) -> None:
    """The unit itself admits only its own machine."""
    for path, programs in found.items():
        expected = path.parent.name != "one_machine"
        assert {'"IPAddressDeny": ""' in each for each in of(UNIT, programs)} == {expected}, path


SPEAKER: Final = COLLECTION / "playbooks/speaker.yml"
OTHER: Final = "[penstock_broker]\n{} penstock_broker_id=1\n"
NAMED: Final = {
    "all": {
        "vars": {"penstock_cluster": "dc1"},
        "children": {"penstock_broker": {"hosts": {"one": {"penstock_broker_id": 1}}}},
    }
}


def test_examples_in_one_folder_are_not_mixed(ansible: None, tmp_path: Path) -> None:
    one, *others = (each for each in EXAMPLES if each.parent.name == TOGETHER)
    options = [word for each in others for word in ("-i", str(each))]
    mixed = play(tmp_path, SPEAKER, yaml.safe_load(one.read_text()), *options, variables=HERE)
    assert mixed.code != 0
    assert mixed.failure == "An inventory has one cluster, and this one has dc1, dc2, offline."


def test_what_a_file_of_an_inventory_says_to_all_is_seen(ansible: None, tmp_path: Path) -> None:
    options: list[str] = []
    for where, said in {
        "dc2/hosts.ini": f"{OTHER.format('of-dc2')}[all:vars]\npenstock_cluster = dc2\n",
        "dc3/group_vars/all.yml": "penstock_cluster: 'dc3'  # as it is called\n",
        "dc4/group_vars/all/10-names.yaml": 'more: 1\n"penstock_cluster": dc4\n',
        "dc5/group_vars/all": '{"more": 1,\n "penstock_cluster": "dc5"}\n',
    }.items():
        file, hosts = tmp_path / where, tmp_path / where[:3] / "hosts.ini"
        file.parent.mkdir(parents=True)
        hosts.write_text(OTHER.format(f"of-{where[:3]}"))
        file.write_text(said)
        options += ["-i", str(hosts)]
    mixed = play(tmp_path, SPEAKER, NAMED, *options, variables=HERE)
    assert mixed.code != 0
    assert mixed.failure == (
        "An inventory has one cluster, and this one has dc1, dc2, dc3, dc4, dc5."
    )


def test_a_cluster_may_be_in_several_files_and_be_called_otherwise(
    ansible: None, tmp_path: Path
) -> None:
    more = tmp_path / "more.ini"
    more.write_text(f"# penstock_cluster=dc2\n{OTHER.format('other').replace('=1', '=2')}")
    variables = {**HERE, "penstock_cluster": "as-typed"}
    played = play(tmp_path, SPEAKER, NAMED, "-i", str(more), variables=variables)
    assert played.code == 0, played.said


def test_all_mistakes_are_named_before_a_host_is_asked(ansible: None, tmp_path: Path) -> None:
    """Also where a group that is misspelt leaves no host to the plays."""
    ids: list[dict[str, Any]] = [{"penstock_broker_id": number} for number in ("1", 1, "one")]
    ids += [{}, {"penstock_broker_instances": [{"id": 2**31}, {"id": 7}, {"id": 7}]}]
    inventory: dict[str, Any] = {
        "all": {"hosts": {"lost": AWAY, "localhost": {}}},
        "penstock_broker": {"hosts": {f"b{at}": AWAY | more for at, more in enumerate(ids)}},
        "penstock_zookeeper": {"hosts": {"z0": {"penstock_zookeeper_id": 0}, "z1": {}}},
        "penstock_audits": {"hosts": {"b0": {}}},
        "penstock_web": {"hosts": {"b0": {}}},
        "web": {"hosts": {"w": AWAY}},
    }
    played = play(tmp_path, COLLECTION / "playbooks/site.yml", inventory)
    assert (played.code, len(played.tasks)) == (2, 1), played.said
    expected = (
        "no group penstock_audits, so its hosts would be left out: did you mean penstock_audit?",
        "no group penstock_web, so its hosts would be left out: it has penstock_zookeeper, pen",
        "no group has lost, so nothing would be installed there",
        "penstock_zookeeper_id of z0 is '0', and must be a number from 1 to 255",
        "z1 has no penstock_zookeeper_id: set a number from 1 to 255 that no other host has",
        "penstock_zookeeper has 2 hosts",
        "penstock_broker_id of b2 is 'one', and must be a number from 0 to 2147483647",
        "penstock_broker_id of b4 is '2147483648'",
        "b3 has no penstock_broker_id",
        "penstock_broker_id is 1 more than once: b0, b1",
        "penstock_broker_id is 7 more than once: b4, b4",
    )
    for text, problem in zip(expected, played.failure.split("; "), strict=True):
        assert text in problem
    for playbook, group in (("site", "penstok_broker"), ("agents", "penstock-agents")):
        path = COLLECTION / f"playbooks/{playbook}.yml"
        played = play(tmp_path, path, {group: {"hosts": {"one": AWAY}}})
        assert f"no group {group}, so its hosts would be left out: did you mean" in played.failure


def test_a_misspelt_variable_is_named_with_its_place(ansible: None, tmp_path: Path) -> None:
    for path, text in {
        "group_vars/web/all.yml": "# penstock_tsl: true\n'penstock_tsl': true\n",
        "more.ini": "[penstock_agent]\nw penstock_local_a=1 penstock_team=a penstock_agent_cnfig=b",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    inventory = {"web": {"hosts": {"w": AWAY, "v": AWAY}}}
    typed = ("-i", f"{tmp_path}/more.ini", "-e", "penstock_rolling_restrat=true")
    played = play(tmp_path, COLLECTION / "playbooks/site.yml", inventory, *typed)
    assert (played.code, len(played.tasks)) == (2, 1), played.said
    for (name, where, hint), problem in zip(
        (
            ("agent_cnfig", "more.ini:2), so", "did you mean penstock_agent_config?"),
            ("rolling_restrat", "of all hosts, set with -e", "penstock_rolling_restart?"),
            ("team", "more.ini:2), so", "the names of your own variables with penstock_local_"),
            ("tsl", "group_vars/web/all.yml:2), so", "did you mean penstock_tls?"),
        ),
        played.failure.split("; "),
        strict=True,
    ):
        assert problem.startswith(f"the collection has no variable penstock_{name} ({where}")
        assert problem.endswith(hint)


def of(program: str, found: Mapping[tuple[str, str], Any]) -> list[Any]:
    return [each for (of, _), each in found.items() if of == program]
