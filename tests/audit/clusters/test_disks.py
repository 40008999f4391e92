"""A broker that cannot write: it makes no statement about that in the ledger, and answers polls."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.clusters.disks import DisksPoller
from audit.clusters.state import AuditState, BrokerDisks, ClusterState
from audit.configuration.config import Cluster
from ground.files.file_system import FileSystem
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.small_disk import mounted_disk, read_only
from tests.system.topics import create


@contextmanager
def polled(broker: BrokerProcess) -> Iterator[AuditState]:
    away = {number: BrokerDisks("", ()) for number in (2, 3)}
    standing = AuditState({"c": ClusterState(away=[3], disks=away)})
    cluster = Cluster(brokers=(broker.bootstrap,))
    poller = DisksPoller("c", cluster, standing, every_seconds=0.1)
    poller.start()
    try:
        wait_until(lambda: standing.clusters["c"].disks_asked, what="it was asked")
        yield standing
    finally:
        poller.ask_to_stop()
        poller.join()


def test_a_full_disk_is_seen_and_a_removed_broker_forgotten(chroot: str, tmp_path: Path) -> None:
    with (
        mounted_disk(tmp_path, 24) as disk,
        BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=disk / "data") as broker,
    ):
        create(broker.bootstrap, "fills")
        with polled(broker) as standing:
            assert standing.clusters["c"].disks.keys() == {1, 3}
            (known,) = standing.clusters["c"].disks[1].disks
            assert (known.label, known.total) == (str(disk / "data"), 24 << 20)
            (disk / "ballast").write_bytes(bytes(known.free - 2**19))
            wait_until(lambda: standing.clusters["c"].disks[1].unwritable, what="it is full")
            assert "fills" in standing.clusters["c"].disks[1].unwritable


def test_a_broker_says_where_it_cannot_write(chroot: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=data) as broker:
        create(broker.bootstrap, "quiet")
        with polled(broker) as standing:

            def reported() -> BrokerDisks:
                return standing.clusters["c"].disks[1]

            assert reported().disks[0].total_files == FileSystem.of(data).total_files
            with read_only(data):
                wait_until(lambda: reported().folders, what="the audit knows")
                (unwritable,) = reported().folders
                assert (unwritable.folder, unwritable.reason) == (
                    str(data),
                    "Read-only file system",
                )
                wait_until(lambda: "quiet" in reported().unwritable, what="what it leads is known")
                status, page = broker.http("/readyz")
                assert status == 503
                assert page.startswith(f"not ready: cannot write to {data}: Read-only file system,")
            wait_until(lambda: not reported().folders, what="the audit knows that it is over")
            assert broker.ready()
