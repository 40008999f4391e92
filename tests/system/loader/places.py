"""Where loads run and where their tables are: local Spark with a local disk, a standalone cluster
and YARN with HDFS. Each knows the processes that a test can kill there."""

import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from harness.hadoop.hadoop import hadoop_command
from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.spark_cluster import SPARK_HOME, WORKERS, SparkCluster
from harness.hadoop.spark_jvm import quick_java
from harness.hadoop.yarn import EXECUTOR, RunningYarn
from tests.system.loader.programs import WITHIN
from tests.system.loader.spark_processes import jvms, kill_all

# Loads are many. Nothing is packed or copied to nodes, which have Spark and this environment, and
# no Java is compiled for a few thousand rows.
_CHEAP: Final = {
    "spark.pyspark.python": sys.executable,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Place(ABC):
    """Where loads run, and their table is."""

    master: str
    conf: Mapping[str, str]
    environment: Mapping[str, str] = MappingProxyType({})
    has_nodes = True
    kills_at_lesser_steps = False
    fewest_workers = 1  # Python workers that must run before one can be frozen
    uri: str  # of the table's root

    @abstractmethod
    def executors(self, load: "subprocess.Popen[str] | None" = None) -> list[int]:
        """The process ids of this load's executors; without a load, of all that are left."""

    @abstractmethod
    def root(self) -> Path:
        """The root, or a copy of what it has now."""

    def lose_node(self) -> None:
        """Kills a node with all that it runs, and starts it again."""
        raise NotImplementedError


class Local(Place):
    """A driver whose JVM runs the tasks, on a local disk."""

    master = "local[2]"
    has_nodes = False
    kills_at_lesser_steps = True
    # The JVM waits for a worker that it has just forked, and forks no other meanwhile.
    fewest_workers = 2

    def __init__(self, folder: Path) -> None:
        self.conf = {
            **_CHEAP,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": quick_java(),
        }
        self.uri = f"file://{folder}/root"

    def executors(self, load: "subprocess.Popen[str] | None" = None) -> list[int]:
        return [] if load is None else jvms(load.pid)

    def root(self) -> Path:
        return Path(self.uri.removeprefix("file://"))


class OnHdfs(Place):
    """A table on HDFS."""

    def __init__(self, hdfs: RunningHdfs, folder: Path) -> None:
        self._hdfs = hdfs
        self._folder = folder
        self.uri = f"{hdfs.uri}/{folder.name}"

    def root(self) -> Path:
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        command = hadoop_command(
            "org.apache.hadoop.fs.FsShell",
            *("-get", self.uri, str(copy)),
            configuration=self._hdfs.directory / "conf",
            temporary=self._folder,
            heap="128m",
        )
        subprocess.run(command, check=True, timeout=WITHIN)
        return copy


class OnStandalone(OnHdfs):
    """Executors on the two workers of a standalone cluster."""

    def __init__(self, cluster: SparkCluster, hdfs: RunningHdfs, folder: Path) -> None:
        super().__init__(hdfs, folder)
        self._cluster = cluster
        self.master = cluster.master
        self.conf = {
            **cluster.conf,
            **{f"spark.hadoop.{key}": value for key, value in hdfs.configuration.items()},
            **_CHEAP,
        }

    def executors(self, load: "subprocess.Popen[str] | None" = None) -> list[int]:
        return [pid for worker in range(WORKERS) for pid in self._cluster.executors(worker)]

    def lose_node(self) -> None:
        worker, executors = self._cluster.workers[0], self._cluster.executors(0)
        worker.kill()
        kill_all(executors)
        worker.start()


class OnYarn(OnHdfs):
    """Executors in containers of one NodeManager."""

    master = "yarn"

    def __init__(self, yarn: RunningYarn, hdfs: RunningHdfs, folder: Path) -> None:
        super().__init__(hdfs, folder)
        self._yarn = yarn
        self.conf = {**yarn.conf, **_CHEAP, "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*"}
        self.environment = yarn.environment

    def executors(self, load: "subprocess.Popen[str] | None" = None) -> list[int]:
        return self._yarn.containers(EXECUTOR)

    def lose_node(self) -> None:
        self._yarn.node_manager.kill()
        kill_all(self._yarn.containers())
        self._yarn.node_manager.start()
