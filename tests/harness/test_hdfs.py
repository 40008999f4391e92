"""The HDFS of the tests does what is expected of one, as seen by the Hadoop client within PySpark.

What Penstock's loader rests on is here: of many that give one name, one gets it, whole.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from harness.hdfs import RunningHdfs

pytestmark = pytest.mark.long

RACERS = 6
BLOCK = 4096
ALREADY_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


class Client:
    """Files below one folder of HDFS, through the JVM of a Spark session."""

    def __init__(self, spark: SparkSession, hdfs: RunningHdfs, root: str) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._hadoop = gateway.jvm.org.apache.hadoop
        self._root = root
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in hdfs.configuration.items():
            configuration.set(name, value)
        uri = self.path().toUri()
        self.files = self.path().getFileSystem(configuration)
        self.context = self._hadoop.fs.FileContext.getFileContext(uri, configuration)
        self.files.mkdirs(self.path())

    def path(self, name: str = "") -> Any:
        return self._hadoop.fs.Path(f"{self._root}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Creates it; refused if it is there."""
        stream = self.files.create(self.path(name), False, BLOCK, 1, BLOCK)
        stream.write(bytearray(content))
        stream.close()

    def read(self, name: str) -> bytes:
        stream = self.files.open(self.path(name))
        content = bytes(stream.readAllBytes())
        stream.close()
        return content

    def rename(self, source: str, target: str) -> None:
        """Never over what is there."""
        rename = self._hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.NONE
        self.context.rename(self.path(source), self.path(target), options)

    def names(self) -> list[str]:
        return sorted(status.getPath().getName() for status in self.files.listStatus(self.path()))


@pytest.fixture
def client(spark: SparkSession, hdfs: RunningHdfs, hdfs_root: str) -> Client:
    return Client(spark, hdfs, hdfs_root)


def failure_of(act: Callable[[], object]) -> str:
    """The class of the Java exception it ends with; empty if it ends well."""
    try:
        act()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())
    return ""


def race(act: Callable[[int], None]) -> list[str]:
    """What each of the racers fails with."""
    start = Barrier(RACERS)

    def run(racer: int) -> str:
        start.wait()
        return failure_of(lambda: act(racer))

    with ThreadPoolExecutor(RACERS) as racers:
        return list(racers.map(run, range(RACERS)))


def test_of_many_that_create_one_file_one_does(client: Client) -> None:
    failures = race(lambda racer: client.write("taken", b"%d" % racer))

    assert failures.count("") == 1
    assert client.read("taken") == b"%d" % failures.index("")
    assert failure_of(lambda: client.write("taken", b"later")) == ALREADY_EXISTS


def test_of_many_that_rename_to_one_name_one_does_and_the_others_keep_theirs(
    client: Client,
) -> None:
    for racer in range(RACERS):
        client.write(f"own-{racer}", b"%d" % racer)
    failures = race(lambda racer: client.rename(f"own-{racer}", "taken"))

    assert sorted(failures) == ["", *[ALREADY_EXISTS] * (RACERS - 1)]
    winner = failures.index("")
    assert client.read("taken") == b"%d" % winner
    losers = [f"own-{racer}" for racer in range(RACERS) if racer != winner]
    assert client.names() == [*losers, "taken"]
