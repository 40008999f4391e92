"""What tests of the audit share."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.ledger_cluster import LedgerCluster, ledger_cluster


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[AuditedLedger]:
    """An empty one, by today's clock."""
    with AuditedLedger(tmp_path / "ledger") as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[LedgerCluster]:
    """Of a module, so that no topic of another one is in it: an acceptance is of the topic that
    there is, if there is one."""
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with ledger_cluster(tmp_path_factory.mktemp("cluster"), address) as cluster:
        yield cluster
