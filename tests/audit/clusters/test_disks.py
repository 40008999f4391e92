"""A broker whose disk is full: it takes no statement about that, and answers when asked."""

from pathlib import Path

from audit.clusters.disks import DisksPoller
from audit.clusters.state import AuditState, BrokerDisks, BrokerFacts, ClusterState
from audit.configuration.config import Cluster
from client.errors import ClientError
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.small_disk import mounted_disk
from tests.system.topics import create


def test_a_full_disk_is_seen_and_a_stop_makes_no_room(chroot: str, tmp_path: Path) -> None:
    with (
        mounted_disk(tmp_path, 24) as disk,
        BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=disk / "data") as broker,
    ):
        create(broker.bootstrap, "fills")
        facts = [BrokerFacts(1, "", "", "", controller=True, partitions=1, leads=1)]
        standing = AuditState({"c": ClusterState(brokers=facts, disks={2: BrokerDisks("", ())})})
        cluster = Cluster(brokers=(broker.bootstrap,))
        failures: list[ClientError | None] = []

        class Noting(DisksPoller):
            def _note_failure(self, error: ClientError | None) -> None:
                super()._note_failure(error)
                failures.append(error)

        poller = Noting("c", cluster, standing, every_seconds=0.1)
        poller.start()

        def is_full() -> bool:
            known = standing.clusters["c"].disks[1]
            return known.disks[0].free == 0 and "fills" in known.unwritable

        try:
            wait_until(lambda: list(standing.clusters["c"].disks) == [1], what="2 was removed")
            (known,) = standing.clusters["c"].disks[1].disks
            assert (known.label, known.total, is_full()) == (str(disk / "data"), 24 << 20, False)
            (disk / "ballast").write_bytes(bytes(known.free))
            wait_until(is_full, what="it is full")
            broker.kill()
            wait_until(lambda: failures, what="it is away")
        finally:
            poller.ask_to_stop()
            poller.join()
        assert is_full()
