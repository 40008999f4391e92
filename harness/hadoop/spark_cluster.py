"""A Spark standalone cluster on loopback: a Master and two Workers with a bare Python.

Workers are as on separate hosts: their executors' Python packages come from Spark's distribution
(`python/lib/*.zip`) and from what a driver ships. The interpreter is a fresh virtual environment
without pip, and without the tests' packages.
"""

import re
import shutil
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from harness.hadoop.spark_jvm import SMALL, quick_java
from harness.processes.server_process import (
    RunningServer,
    RunningServers,
    ServerProcess,
    free_ports,
)
from harness.processes.waiting import wait_until

SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS: Final = 2
DAEMON_HEAP: Final = "128m"
EXECUTOR_MEMORY: Final = "512m"  # Spark takes no less than 450 MB


def scala_version() -> str:
    """Returns the version of Scala that Spark was built with, which a pip installation does not
    state."""
    (core,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    match = re.match(r"spark-core_([\d.]+)-", core.name)
    assert match is not None
    return match[1]


def create_bare_python(folder: Path) -> Path:
    """Creates an interpreter of the same version as this one, without packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


class Daemon(RunningServer):
    """A Master or a Worker. Ready once it has logged its line `times` times since its start."""

    def __init__(self, process: ServerProcess, line: str, times: int = 1) -> None:
        self.process = process
        self._said = line
        self._times = times
        self._times_before = 0

    def spawn(self) -> None:
        self._times_before = self.log().count(self._said)
        super().spawn()

    def ready(self) -> bool:
        return self.log().count(self._said) >= self._times_before + self._times


class SparkCluster(RunningServers):
    """A cluster. Drivers connect to `master`, with the configuration `conf`, and with `python` as
    PYSPARK_PYTHON."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{port}"
        master = self._daemon("master", "master.Master", "--port", str(port))
        self.workers = [self._worker(number) for number in range(1, WORKERS + 1)]
        self.servers = (Daemon(master, "Master: Registering worker ", WORKERS), *self.workers)

    @property
    def python(self) -> Path:
        """A Python interpreter of the same version as this one, without packages."""
        return self.directory / "python" / "bin" / "python"

    @property
    def conf(self) -> dict[str, str]:
        """A driver's configuration: small, on loopback, waiting for both workers."""
        temporary_folder = self.directory / "temporary"
        options = f"{quick_java()} -Djava.io.tmpdir={temporary_folder}"
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": options,
            "spark.cores.max": str(WORKERS),
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.sql.warehouse.dir": str(temporary_folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }

    def spawn(self) -> None:
        create_bare_python(self.directory / "python")
        (self.directory / "temporary").mkdir(exist_ok=True)
        super().spawn()

    def _daemon(self, name: str, program: str, *arguments: str) -> ServerProcess:
        options = [
            f"-Xmx{DAEMON_HEAP}",
            *SMALL.split(),
            "-Dspark.master.rest.enabled=false",
            "-Dspark.shuffle.service.enabled=false",
            # An application's unpacked files are removed soon after its end.
            "-Dspark.worker.cleanup.enabled=true",
            "-Dspark.worker.cleanup.interval=5",
            "-Dspark.worker.cleanup.appDataTtl=1",
            f"-Djava.io.tmpdir={self.directory / 'temporary'}",
        ]
        command = ["java", *options, "-cp", str(SPARK_HOME / "jars" / "*")]
        listen_options = ["--host", "127.0.0.1", "--webui-port", "0"]
        return ServerProcess(
            [*command, f"org.apache.spark.deploy.{program}", *listen_options, *arguments],
            output=self.directory / f"{name}.log",
            environment={
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(self.directory / "temporary"),
                "SPARK_SCALA_VERSION": scala_version(),
                "PYTHONPATH": "",  # the tests' own
                "PYSPARK_PYTHON": "/the driver says which",
            },
            directory=self.directory,
        )

    def _worker(self, number: int) -> Daemon:
        work = self.directory / f"work-{number}"  # the worker creates it
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
        process = self._daemon(f"worker-{number}", "worker.Worker", *size, self.master)
        return Daemon(process, "Successfully registered with master")

    def executors(self, worker: int) -> list[int]:
        """Returns the process ids of the executors on a worker; `worker` is 0 or 1."""
        process = self.workers[worker].process
        if not process.alive:
            return []
        children = Path(f"/proc/{process.pid}/task").glob("*/children")
        return [int(number) for file in children for number in file.read_text().split()]

    def stop(self) -> None:
        """Stops all daemons; a worker ends its executors first."""
        with self._leaving_logs_alone():
            super().stop()

    def kill(self) -> None:
        with self._leaving_logs_alone():
            super().kill()

    @contextmanager
    def _leaving_logs_alone(self) -> Iterator[None]:
        """Waits until executors have ended with their workers; removes files except logs."""
        executors = [pid for worker in range(WORKERS) for pid in self.executors(worker)]
        yield
        wait_until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in executors),
            within=30,
            what="executors end with their workers",
        )
        for folder in ("python", "temporary", *(f"work-{n}" for n in range(1, WORKERS + 1))):
            shutil.rmtree(self.directory / folder, ignore_errors=True)
