"""What goes on beside the copying goes on after a bug, and says so."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from client.connection.brokers import Brokers
from client.errors import Corrupt
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from mirror.clusters.acls import AclsSync
from mirror.clusters.group_offsets import GroupsSync
from mirror.kafka_target.map_topic import MapTopic, Mark
from mirror.worker.partition_sharing import Sharing
from tests.mirror.workers import mirror_config

OFTEN: dict[str, Any] = {"interval": 0.1, "groups": {"interval": 0.1}}


class Once:
    """Fails when it is called first."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[Any, Any]:
        self.calls += 1
        if self.calls == 1:
            raise KeyError("nobody has foreseen this")
        return {}


@pytest.mark.parametrize("kind", [GroupsSync, AclsSync])
def test_a_bug_is_told_and_the_next_look_succeeds(kind: Callable[..., Any]) -> None:
    seen: list[str] = []
    fails = Once()

    def copies() -> dict[Any, Any]:
        seen.append(rounds.trouble)
        return fails()

    rounds = kind(mirror_config(**OFTEN), copies)
    rounds.start()
    try:
        wait_until(lambda: fails.calls >= 3, what="it looks again")
    finally:
        rounds.stop()
    assert seen[:3] == ["", "KeyError('nobody has foreseen this')", ""]


def test_sharing_goes_on_with_another_session(zookeeper: EmbeddedZooKeeper) -> None:
    fails = Once()
    sharing = Sharing(mirror_config(zookeeper=zookeeper.address, **OFTEN), fails, lambda _: None)
    sharing.start()
    try:
        wait_until(lambda: fails.calls >= 3, what="it goes on")
        assert sharing.trouble == "KeyError('nobody has foreseen this')"
    finally:
        sharing.stop()


def test_a_map_that_says_what_nobody_can_be_a_copy_of_is_damaged(
    here: Brokers, new_topic: str
) -> None:
    said = MapTopic(here, new_topic)
    with closing(said):
        said.mark("dc1.clicks", Mark("no/such"))
        with pytest.raises(Corrupt, match="is not CLUSTER/TOPIC/TOPIC-ID"):
            said.read()
