"""A broker whose disk is full: it takes no statement about that, and answers when asked."""

from pathlib import Path

from audit.clusters.disks import DisksPoller
from audit.clusters.state import AuditState, BrokerDisks, ClusterState
from audit.configuration.config import Cluster
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.small_disk import mounted_disk
from tests.system.topics import create


def test_a_full_disk_is_seen_and_a_removed_broker_forgotten(chroot: str, tmp_path: Path) -> None:
    with (
        mounted_disk(tmp_path, 24) as disk,
        BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=disk / "data") as broker,
    ):
        create(broker.bootstrap, "fills")
        away = {number: BrokerDisks("", ()) for number in (2, 3)}
        standing = AuditState({"c": ClusterState(away=[3], disks=away)})
        cluster = Cluster(brokers=(broker.bootstrap,))
        poller = DisksPoller("c", cluster, standing, every_seconds=0.1)
        poller.start()
        try:
            wait_until(lambda: standing.clusters["c"].disks_asked, what="it was asked")
            assert standing.clusters["c"].disks.keys() == {1, 3}
            (known,) = standing.clusters["c"].disks[1].disks
            assert (known.label, known.total) == (str(disk / "data"), 24 << 20)
            (disk / "ballast").write_bytes(bytes(known.free - 2**19))
            wait_until(lambda: standing.clusters["c"].disks[1].unwritable, what="it is full")
            assert "fills" in standing.clusters["c"].disks[1].unwritable
        finally:
            poller.ask_to_stop()
            poller.join()
