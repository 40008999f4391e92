"""What a real HDFS raises when it has no room, or no DataNode, and the line that becomes of it."""

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from harness.processes.waiting import wait_until
from loader.config import LoaderConfig, Tasks
from loader.errors import BlocksUnavailable, QuotaExceeded, StoreError, cure_of
from loader.store.hadoop import HadoopStore
from loader.store.hadoop_errors import first_line, store_error
from tests.loader.application import Application
from tests.loader.loads import outcome_of
from tests.loader.store.hadoop_stores import hadoop_store

MEGABYTE = 1024 * 1024
REMOTE = "org.apache.hadoop.ipc.RemoteException"


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (f"{REMOTE}(java.io.IOException): File /a: no\n\tat x", "IOException: File /a: no"),
        (f"{REMOTE}(org.apache.hadoop.ipc.StandbyException): no", "StandbyException: no"),
        ("java.io.IOException: a.b: c", "IOException: a.b: c"),
        ("No FileSystem for scheme a.b(c): no", "No FileSystem for scheme a.b(c): no"),
        ("\n", "no reason given"),
    ],
)
def test_a_line_begins_with_the_exceptions_class(trace: str, line: str) -> None:
    assert first_line(trace) == line


def limit(spark: SparkSession, store: HadoopStore, folder: str, *, names: int, space: int) -> None:
    """Sets the folder's quotas, as HDFS' superuser does."""
    store.write(f"{folder}/file", b"")
    path = store._at(folder)
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.setQuota(path, names, space)


# As Java's Long.MAX_VALUE: HdfsConstants.QUOTA_DONT_SET.
UNCHANGED = 2**63 - 1


@pytest.mark.parametrize(
    ("names", "space", "line"),
    [
        (UNCHANGED, 10 * MEGABYTE, "the space quota of {} (10 MB) has no room for another block:"),
        (2, UNCHANGED, "the quota of {} allows 2 files and folders, and 3 are needed"),
    ],
)
def test_a_quota_that_leaves_no_room(
    names: int, space: int, line: str, spark: SparkSession, hdfs: RunningHdfs
) -> None:
    name = uuid.uuid4().hex
    limit(spark, hadoop_store(spark, hdfs.configuration, hdfs.uri), name, names=names, space=space)
    store = hadoop_store(spark, hdfs.configuration, f"{hdfs.uri}/{name}")
    for number, act in enumerate((store.write, store.create, store.replace)):
        with pytest.raises(QuotaExceeded) as caught:
            act(str(number), b"1")
        assert line.format(f"/{name}") in str(caught.value)


def test_a_load_by_spark_names_the_quota(
    spark: SparkSession,
    hdfs: RunningHdfs,
    hdfs_root: str,
    application: Application,
    config: LoaderConfig,
) -> None:
    """Below one block: not even an empty table's first file has room."""
    application.write(10)
    store = hadoop_store(spark, hdfs.configuration, hdfs_root)
    staging = f"_penstock/{application.topic}/staging"
    limit(spark, store, staging, names=UNCHANGED, space=MEGABYTE)
    config = msgspec.structs.replace(config, root=hdfs_root, tasks=Tasks(without_spark=0))
    outcome = outcome_of(spark, config)
    assert isinstance(outcome.error, QuotaExceeded)
    assert str(outcome.error).startswith(f"{application.topic}: landing: the space quota of /")
    assert "hdfs dfsadmin -setSpaceQuota" in cure_of(outcome.error, application.topic)


@pytest.fixture(scope="module")
def mortal_hdfs(tmp_path_factory: pytest.TempPathFactory, hdfs: RunningHdfs) -> Iterator[Any]:
    """An HDFS with two DataNodes, which a test may kill."""
    with (
        RunningHdfs(tmp_path_factory.mktemp("mortal")) as running,
        running.another_datanode() as second,
    ):
        yield running, second


@pytest.mark.slow
@pytest.mark.long
def test_datanodes_that_go_away(spark: SparkSession, mortal_hdfs: Any) -> None:
    """One of two during a write, then the other during another; then nothing is stored or read."""
    hdfs, second = mortal_hdfs
    hdfs.configuration = {
        **hdfs.configuration,
        "dfs.replication": "2",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "ALWAYS",
        "dfs.client.retry.window.base": "10",
    }
    store = hadoop_store(spark, hdfs.configuration, f"{hdfs.uri}/logs")
    # Before its first heartbeat a DataNode has no room, and gets no blocks.
    nodes = store._files.getDataNodeStats
    wait_until(lambda: sum(node.getRemaining() > 0 for node in nodes()) == 2)
    store.write("file", b"1" * MEGABYTE)

    def failing(name: str, server: Any) -> StoreError:
        stream = store._files.create(store._at(name), False)
        stream.write(bytearray(b"1"))
        stream.hsync()
        server.kill()
        with pytest.raises(Py4JJavaError) as caught:
            while True:
                stream.write(bytearray(b"1"))
                stream.hsync()
        return store_error(f"cannot write {name}", caught.value.java_exception.toString())

    error = failing("one", second)
    assert isinstance(error, BlocksUnavailable)
    assert "a DataNode failed during a write to 127.0.0.1:" in str(error)
    assert "no other DataNode can take its place" in str(error)

    hdfs.configuration = {**hdfs.configuration, "dfs.replication": "1"}
    store = hadoop_store(spark, hdfs.configuration, f"{hdfs.uri}/logs")
    error = failing("two", hdfs.datanode)
    assert isinstance(error, BlocksUnavailable)
    assert "all DataNodes of a write failed before it ended: 127.0.0.1:" in str(error)
    assert "hdfs dfsadmin -report" in cure_of(error, "logs")

    with pytest.raises(BlocksUnavailable, match="no running DataNode has a block of /logs/file"):
        store.read("file")
    with pytest.raises(BlocksUnavailable, match=r"none of the [12] running DataNodes accepts a"):
        store.write("three", b"1")
