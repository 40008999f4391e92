"""A Spark standalone cluster on loopback: a Master and two Workers whose Python is bare.

Workers are as on hosts of their own: what their executors know of Python comes from Spark's
distribution (`python/lib/*.zip`) and from what a driver ships. The interpreter is a fresh virtual
environment without pip, and without the packages of the tests.
"""

import re
import shutil
import time
import venv
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from harness.server_process import ServerFailed, ServerProcess, free_ports, wait_until
from harness.spark_jvm import SMALL, quick_java

SPARK_HOME: Final = Path(pyspark.__file__).parent
WORKERS: Final = 2
DAEMON_HEAP: Final = "128m"
EXECUTOR_MEMORY: Final = "512m"  # Spark takes no less than 450 MB


def scala_version() -> str:
    """Which `bin/load-spark-env.sh` would find out: an installation by pip does not say."""
    (core,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    found = re.match(r"spark-core_([\d.]+)-", core.name)
    assert found is not None
    return found[1]


class SparkCluster:
    """Drivers reach it under `master`, with `conf`, and with `python` as their PYSPARK_PYTHON."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master = ""
        self.startup_seconds = 0.0
        self._master: ServerProcess | None = None
        self._workers: list[ServerProcess] = []

    @property
    def python(self) -> Path:
        """An interpreter of this version, in which nothing is installed."""
        return self.directory / "python" / "bin" / "python"

    @property
    def conf(self) -> dict[str, str]:
        """For drivers: small, on loopback, and both workers are there when the first job runs."""
        temporary = self._folder("temporary")
        options = f"{quick_java()} -Djava.io.tmpdir={temporary}"
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": options,
            "spark.cores.max": str(WORKERS),
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.sql.warehouse.dir": str(temporary / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }

    def start(self) -> None:
        """Returns once both workers are registered."""
        began = time.monotonic()
        venv.create(self.directory / "python", with_pip=False, symlinks=True)
        (port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{port}"
        self._master = self._daemon("master", "master.Master", "--port", str(port))
        for number in range(1, WORKERS + 1):
            self._workers.append(self._worker(number))
        for process in self.processes:
            process.spawn()
        self._master.wait_ready(lambda: self.registered() == WORKERS, within=60)
        self.startup_seconds = time.monotonic() - began

    def _daemon(self, name: str, program: str, *arguments: str) -> ServerProcess:
        options = [
            f"-Xmx{DAEMON_HEAP}",
            *SMALL.split(),
            "-Dspark.master.rest.enabled=false",
            "-Dspark.shuffle.service.enabled=false",
            # What an application unpacked is removed soon after its end.
            "-Dspark.worker.cleanup.enabled=true",
            "-Dspark.worker.cleanup.interval=5",
            "-Dspark.worker.cleanup.appDataTtl=1",
            f"-Djava.io.tmpdir={self._folder('temporary')}",
        ]
        command = ["java", *options, "-cp", str(SPARK_HOME / "jars" / "*")]
        listen = ["--host", "127.0.0.1", "--webui-port", "0"]
        return ServerProcess(
            [*command, f"org.apache.spark.deploy.{program}", *listen, *arguments],
            output=self.directory / f"{name}.log",
            environment={
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(self._folder("temporary")),
                "SPARK_SCALA_VERSION": scala_version(),
                "PYTHONPATH": "",  # the tests' own
                "PYSPARK_PYTHON": "/the driver says which",
            },
            directory=self.directory,
        )

    def _worker(self, number: int) -> ServerProcess:
        work = self._folder(f"work-{number}")
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
        return self._daemon(f"worker-{number}", "worker.Worker", *size, self.master)

    def _folder(self, name: str) -> Path:
        folder = self.directory / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def processes(self) -> list[ServerProcess]:
        """The Master, and the Workers."""
        return [*([self._master] if self._master else []), *self._workers]

    def registered(self) -> int:
        """How many workers the Master took so far."""
        assert self._master is not None
        return self._master.log().count("Master: Registering worker ")

    def executors(self, worker: int) -> list[int]:
        """Process numbers of the executors that run on a worker, 0 or 1."""
        parent = self._workers[worker].pid
        children = Path(f"/proc/{parent}/task").glob("*/children")
        return [int(number) for each in children for number in each.read_text().split()]

    def stop(self) -> None:
        """All of it, with the executors of applications that still run, and all files but logs."""
        executors = [pid for worker in range(len(self._workers)) for pid in self.executors(worker)]
        for worker in self._workers:
            _end(worker)
        if self._master is not None:
            self._master.kill()
        wait_until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in executors),
            within=30,
            what="executors end with their workers",
        )
        for folder in ("python", "temporary", *(f"work-{n}" for n in range(1, WORKERS + 1))):
            shutil.rmtree(self.directory / folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _end(worker: ServerProcess) -> None:
    """Asked to end, a worker ends its executors first."""
    if worker.alive:
        try:
            worker.terminate(within=20)
        except ServerFailed:
            worker.kill()
