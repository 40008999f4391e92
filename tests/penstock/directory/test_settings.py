"""What the programs are told is what they accept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.configuration.config import AgentConfig
from audit.configuration.config import AuditConfig
from broker.configs.config import BrokerConfig
from loader.config import LoaderConfig
from loader.planning.table_selection import matching
from mirror.config import MirrorConfig
from penstock.config.configuration import load
from penstock.directory.places import WINDOW_SECONDS, MirrorPorts, Places, Ports
from penstock.directory.preparation import SETTINGS_HEADER, literal, settings, settings_text
from penstock.services.agent_configuration import load_agent
from registry.config import RegistryConfig

KINDS: Mapping[str, type[msgspec.Struct]] = {
    "broker": BrokerConfig,
    "registry": RegistryConfig,
    "agent": AgentConfig,
    "loader": LoaderConfig,
    "audit": AuditConfig,
}
WITH_MIRROR: Mapping[str, type[msgspec.Struct]] = {
    **KINDS,
    "mirror": MirrorConfig,
    "offline-broker": BrokerConfig,
    "offline-registry": RegistryConfig,
}
MIRROR = MirrorPorts.beginning_at(19_000)
PORTS = Ports.beginning_at(19_000)


NAMES = ["plain", "with space", "${HOME}: #x", "'\"", "größe", "- [a]"]


def loaded(
    directory: Path, mirror: MirrorPorts | None = None, *, secure: bool = False
) -> dict[str, Any]:
    """As each program reads it."""
    places = Places(directory)
    secret = places.data("zookeeper") / "secret"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("s3cret\n")
    found: dict[str, Any] = {}
    for program, content in settings(places, PORTS, mirror, secure=secure).items():
        path = directory / f"{program}.yaml"
        path.write_text(settings_text(content))
        found[program] = load(WITH_MIRROR[program], path)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_program_takes_its_settings(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    found = loaded(directory)
    assert set(found) == set(KINDS)
    broker, registry, agent, loader, audit = (found[each] for each in KINDS)
    assert (broker.data_dir, broker.zookeeper) == (f"{directory}/broker", "127.0.0.1:19000")
    assert (broker.zookeeper_secret, broker.keeps_ledger) == ("s3cret", True)
    assert (agent.inputs_dir, agent.data_dir) == (f"{directory}/inputs.d", f"{directory}/agent")
    assert loader.root == f"file://{directory}/warehouse"
    assert audit.data_dir == f"{directory}/audit"
    assert {broker.window, agent.window, loader.window, audit.window} == {WINDOW_SECONDS}
    assert {broker.cluster, registry.cluster, agent.cluster, loader.cluster} == {audit.cluster}
    assert load_agent(directory / "agent.yaml", ()) == agent


def test_every_port_is_used_once(tmp_path: Path) -> None:
    broker, registry, agent, _, audit = loaded(tmp_path).values()
    zookeeper = int(broker.zookeeper.rpartition(":")[2])
    listening = (broker.port, broker.http_port, registry.port, audit.port, agent.http_port)
    assert Ports(zookeeper, *listening) == PORTS


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_with_a_mirror_there_are_two_clusters(tmp_path: Path, name: str, *, secure: bool) -> None:
    directory = tmp_path / name
    directory.mkdir()
    found = loaded(directory, MIRROR, secure=secure)
    assert set(found) == set(WITH_MIRROR)
    mirror, offline, registry, there = (
        found[each] for each in ("mirror", "offline-broker", "offline-registry", "broker")
    )
    agent, loader, audit = (found[each] for each in ("agent", "loader", "audit"))
    names = mirror.source.cluster, mirror.target.cluster
    assert (agent.cluster, loader.cluster) == (there.cluster, offline.cluster) == names
    assert tuple(audit.all_clusters) == names
    assert there.zookeeper != offline.zookeeper
    assert there.data_dir != offline.data_dir
    # From the agent to where lines land.
    to, out = mirror.target.brokers[0], mirror.source.brokers[0]
    assert (agent.brokers, loader.brokers) == ((out,), (to,))
    assert [each.brokers for each in audit.all_clusters.values()] == [(out,), (to,)]
    assert matching(["dc1.web", "dc1._schemas", "own"], loader.topics, []) == ["dc1.web"]
    assert [each.topic for each in registry.mirrored] == ["dc1._schemas"]
    every = [
        *(PORTS.zookeeper, there.http_port, agent.http_port, audit.port),
        *(each.port for one in (there, offline) for each in one.every_listener),
        *(offline.http_port, mirror.http_port, registry.port),
    ]
    assert sorted([*every, found["registry"].port]) == [*PORTS, *MIRROR]
    logins = [each.security.login for each in (mirror.source, mirror.target, loader)]
    assert all(each is not None for each in logins) == secure
    if secure:
        clusters = audit.all_clusters.values()
        assert {each.security.login and each.security.login.user for each in clusters} == {"audit"}
        assert logins[0] is not None
        assert logins[0].user == "mirror"


def test_the_files_say_that_changes_are_lost() -> None:
    assert all(line.startswith("#") for line in SETTINGS_HEADER.splitlines())


class Text(msgspec.Struct):
    value: str


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_text_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "text.yaml"
    path.write_text(settings_text({"value": literal(text)}))
    assert load(Text, path).value == text
