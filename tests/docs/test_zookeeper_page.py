"""docs/zookeeper.md: what it says to type into ZooKeeper's shell keeps strangers out."""

import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from cluster.zookeeper_server.jars import find_class_path
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.docs.pages import ROOT, blocks_of

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_only_who_has_the_secret_makes_nodes_at_the_root(tmp_path: Path) -> None:
    blocks = blocks_of(ROOT / "docs" / "zookeeper.md")
    (typed,) = (block.text for block in blocks if block.text.startswith("addauth "))
    zookeeper = EmbeddedZooKeeper.start(tmp_path, port=0)
    stranger = KazooClient(zookeeper.address)
    friend = KazooClient(zookeeper.address, auth_data=[("digest", "penstock:SECRET")])
    try:
        stranger.start()
        stranger.create("/before", b"")
        jars = Path(find_class_path().partition(":")[0]).parent
        shell = ["java", "-cp", f"{jars}/*", "org.apache.zookeeper.ZooKeeperMain"]
        subprocess.run(
            [*shell, "-server", zookeeper.address], input=typed.encode(), check=True, timeout=120
        )
        for folder in ("", "/zookeeper", "/zookeeper/quota"):
            with pytest.raises(NoAuthError):
                stranger.create(f"{folder}/after", b"")
        friend.start()
        friend.create("/after", b"")
    finally:
        for client in (stranger, friend):
            client.stop()
            client.close()
        zookeeper.stop()
