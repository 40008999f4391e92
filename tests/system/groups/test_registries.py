"""Schema registries that elect one of them by a group of protocol type `sr`, as Confluent's do."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import groups
from cluster.session import Session
from harness.broker_process import REPOSITORY, BrokerProcess
from harness.server_process import ServerProcess
from harness.waiting import wait_until
from tests.system.groups.history import WITHIN

GROUP = "schema-registry"
PORTS = (8082, 8081)


@pytest.fixture
def registries(broker: BrokerProcess, tmp_path: Path) -> Iterator[dict[int, ServerProcess]]:
    """By their ports; none runs yet."""
    program = [sys.executable, "-m", "tests.system.groups.registry_member"]
    made = {
        port: ServerProcess(
            [*program, broker.bootstrap, GROUP, str(port)],
            output=tmp_path / f"{port}.log",
            directory=REPOSITORY,
        )
        for port in PORTS
    }
    yield made
    for each in made.values():
        each.kill()


def leader_says(registry: ServerProcess) -> int | None:
    """The port of who leads, as this one was told last."""
    lines = [each for each in registry.log().splitlines() if each.startswith("{")]
    if not lines:
        return None
    told = json.loads(lines[-1])
    assert told["error"] == 0
    port: int = told["master_identity"]["port"]
    return port


def wait_for_leader(port: int, *registries: ServerProcess) -> None:
    wait_until(
        lambda: all(leader_says(each) == port for each in registries),
        within=WITHIN,
        what=f"the registry at {port} leads",
        every=0.1,
    )


@pytest.mark.timeout(300)
def test_one_leads_and_the_next_one_when_it_dies(
    broker: BrokerProcess, session: Session, registries: dict[int, ServerProcess]
) -> None:
    first, second = PORTS
    registries[first].spawn()
    wait_for_leader(first, registries[first])
    registries[second].spawn()
    wait_for_leader(first, *registries.values())  # though the other one has the lesser URL
    stored = groups.read_group(session, GROUP)
    assert stored is not None
    assert stored.info.protocol_type == "sr"
    assert len(stored.members) == 2

    registries[first].kill()
    wait_for_leader(second, registries[second])
    registries[first].spawn()
    wait_for_leader(second, *registries.values())
    assert registries[second].terminate() == 0
    wait_for_leader(first, registries[first])
    assert broker.process.alive
    assert "Traceback" not in broker.log()
