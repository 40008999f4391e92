"""A broker that cannot write: it makes no statement about that in the ledger, and answers polls."""

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from audit.clusters.disks import DisksPoller
from audit.clusters.state import AuditState, BrokerDisks, ClusterState
from audit.configuration.config import Cluster
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


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("", "Read-only file system"), ("quiet-0", "Read-only file system"), ("inodes", "no inodes")],
)
def test_a_broker_says_where_it_cannot_write(
    chroot: str, tmp_path: Path, folder: str, reason: str
) -> None:
    with (
        mounted_disk(tmp_path, 24, inodes=400) as disk,
        BrokerProcess(tmp_path / "broker", zookeeper=chroot, data_dir=disk / "data") as broker,
    ):
        create(broker.bootstrap, "quiet")
        data = disk / "data"
        with polled(broker) as standing:

            def reported() -> BrokerDisks:
                return standing.clusters["c"].disks[1]

            if folder == "inodes":
                folder, ballast = "", disk / "ballast"
                ballast.mkdir()
                with pytest.raises(OSError, match="No space left"):
                    for number in range(400):
                        (ballast / str(number)).touch()
            else:
                ballast = None
            with contextlib.nullcontext() if ballast else read_only(data / folder):
                wait_until(lambda: not broker.ready(), what="it is not ready")
                said = f"not ready: cannot write to {data / folder}: {reason}"
                assert broker.http("/readyz")[1].startswith(said.removesuffix("/"))
                wait_until(lambda: reported().folders, what="the audit knows")
                (unwritable,) = reported().folders
                assert Path(unwritable.folder) == data / folder
                assert unwritable.reason.startswith(reason)
                assert "quiet" in reported().unwritable
                assert reported().disks[0].total_files == 400
                assert (reported().disks[0].free_files == 0) is (ballast is not None)
            if ballast:
                shutil.rmtree(ballast)
            wait_until(broker.ready, what="it is ready again")
            wait_until(lambda: not reported().folders, what="the audit knows that, too")
