"""YARN for tests: one ResourceManager and one NodeManager, each a process that can be killed alone.

Its filesystem is a RunningHdfs. All ports are free ports on loopback and stay the same over
restarts. Containers run as the user who runs the tests, in `local`, with logs in `logs`; they
survive a SIGKILL of their NodeManager, as on any host. `conf` is a client's HADOOP_CONF_DIR.

With a KDC, which its HDFS must have too, it is in Hadoop's secure mode: both servers log in by
keytab, and clients need tickets. Only the web pages, from which tests learn states, need none.
"""

import json
import os
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.hadoop.hadoop import YARN_JARS, configuration_xml, hadoop_command
from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.spark_cluster import EXECUTOR_MEMORY, create_bare_python
from harness.hadoop.spark_jvm import quick_java
from harness.logins.kdc import REALM, Kdc
from harness.processes.server_process import (
    RunningServer,
    RunningServers,
    ServerProcess,
    free_ports,
    http_page,
)
from harness.processes.waiting import wait_until

QUEUE: Final = "etl"
EXECUTORS: Final = 2
EXECUTOR: Final = "YarnCoarseGrainedExecutorBackend"
_SERVERS: Final = "org.apache.hadoop.yarn.server"
_RESOURCE_MANAGER: Final = f"{_SERVERS}.resourcemanager.ResourceManager"
_NODE_MANAGER: Final = f"{_SERVERS}.nodemanager.NodeManager"
# Guice, in the servers' web pages, generates classes.
_JVM: Final = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
_MEMORY: Final = 3072  # MB: an application master, and two executors
_SERVICE: Final = "yarn/127.0.0.1"


class ResourceManager(RunningServer):
    """Ready once a NodeManager has registered."""

    def __init__(self, process: ServerProcess, http_port: int) -> None:
        self.process = process
        self._http_port = http_port

    def ready(self) -> bool:
        metrics = self.page("metrics").get("clusterMetrics", {})
        return bool(metrics.get("activeNodes") == 1)

    def page(self, path: str) -> dict[str, Any]:
        """Returns a document of the REST interface; empty if there is no answer."""
        status, body = http_page(self._http_port, f"/ws/v1/cluster/{path}")
        return dict(json.loads(body)) if status == 200 else {}


class NodeManager(RunningServer):
    """Runs containers. Ready once it is healthy."""

    def __init__(self, process: ServerProcess, http_port: int) -> None:
        self.process = process
        self._http_port = http_port

    def ready(self) -> bool:
        status, body = http_page(self._http_port, "/ws/v1/node/info")
        return status == 200 and json.loads(body)["nodeInfo"]["nodeHealthy"]


class RunningYarn(RunningServers):
    """A YARN: `with RunningYarn(directory, hdfs) as yarn`. Drivers have `environment`, and the
    configuration `conf`."""

    def __init__(self, directory: Path, hdfs: RunningHdfs, *, kdc: Kdc | None = None) -> None:
        self.directory = directory
        self._hdfs = hdfs
        self._in_realm = () if kdc is None else kdc.java_options
        self._conf, self._temporary = directory / "conf", directory / "temporary"
        self._local = directory / "local"
        self._python = directory / "python" / "bin" / "python"
        ports = free_ports(8)
        rm_http, nm_http = ports[:2]
        self._write_configuration(
            {
                "yarn.resourcemanager.hostname": "127.0.0.1",
                "yarn.resourcemanager.webapp.address": f"127.0.0.1:{rm_http}",
                "yarn.resourcemanager.address": f"127.0.0.1:{ports[2]}",
                "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{ports[3]}",
                "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{ports[4]}",
                "yarn.resourcemanager.admin.address": f"127.0.0.1:{ports[5]}",
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
                "yarn.scheduler.minimum-allocation-mb": "256",
                "yarn.nodemanager.hostname": "127.0.0.1",
                "yarn.nodemanager.webapp.address": f"127.0.0.1:{nm_http}",
                "yarn.nodemanager.address": f"127.0.0.1:{ports[6]}",
                "yarn.nodemanager.localizer.address": f"127.0.0.1:{ports[7]}",
                "yarn.nodemanager.local-dirs": str(self._local),
                "yarn.nodemanager.log-dirs": str(directory / "logs"),
                "yarn.nodemanager.resource.memory-mb": str(_MEMORY),
                "yarn.nodemanager.resource.cpu-vcores": "8",
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.delete.debug-delay-sec": "0",
                **({} if kdc is None else _kerberized(kdc.keytab(_SERVICE))),
            }
        )
        self.resource_manager = ResourceManager(
            self._process(_RESOURCE_MANAGER, "resourcemanager.log"), rm_http
        )
        self.node_manager = NodeManager(self._process(_NODE_MANAGER, "nodemanager.log"), nm_http)
        self.servers = (self.resource_manager, self.node_manager)

    @property
    def environment(self) -> dict[str, str]:
        """A driver's environment."""
        return {"HADOOP_CONF_DIR": str(self._conf), "SPARK_LOCAL_IP": "127.0.0.1"}

    @property
    def conf(self) -> dict[str, str]:
        """A driver's configuration: small, on loopback, waiting for both executors, which have a
        Python without packages."""
        java = " ".join([quick_java(), *self._in_realm])
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": java,
            "spark.pyspark.python": str(self._python),
            "spark.executor.instances": str(EXECUTORS),
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": java,
            "spark.scheduler.minRegisteredResourcesRatio": "1",
            "spark.ui.enabled": "false",
            "spark.yarn.am.extraJavaOptions": java,
            "spark.yarn.am.memory": "512m",
            "spark.yarn.queue": QUEUE,
        }

    def applications(self, *states: str) -> list[dict[str, Any]]:
        """Returns the applications in one of these states, or all; oldest first."""
        listed = self.resource_manager.page(f"apps?states={','.join(states)}").get("apps") or {}
        return sorted(listed.get("app", []), key=lambda application: application["startedTime"])

    def containers(self, main_class: str = "java") -> list[int]:
        """Returns the process ids of containers' JVMs that run this main class."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (process / "cmdline").read_bytes().decode(errors="replace")
                program, _, arguments = command.partition("\0")
                if program.endswith("java") and str(self._local) in arguments:
                    found += [int(process.name)] * (main_class in command)
        return sorted(found)

    def spawn(self) -> None:
        create_bare_python(self.directory / "python")
        super().spawn()

    def stop(self) -> None:
        super().stop()
        self._end_containers()

    def kill(self) -> None:
        super().kill()
        self._end_containers()

    def _end_containers(self) -> None:
        """Ends the containers that outlived their NodeManager; removes files except logs."""
        for pid in self.containers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.containers(), within=30, what="containers end")
        for folder in (self._local, self._temporary, self.directory / "python"):
            shutil.rmtree(folder, ignore_errors=True)

    def _process(self, main_class: str, log: str) -> ServerProcess:
        command = hadoop_command(
            main_class,
            configuration=self._conf,
            temporary=self._temporary,
            heap="256m",
            jvm=(*_JVM, *self._in_realm),
            jars=YARN_JARS,
        )
        environment = {"JAVA_HOME": _java_home(), "PYTHONPATH": ""}  # not the tests' own
        return ServerProcess(command, output=self.directory / log, environment=environment)

    def _write_configuration(self, yarn: Mapping[str, str]) -> None:
        shutil.copytree(self._hdfs.directory / "conf", self._conf)
        self._temporary.mkdir()
        (self._conf / "yarn-site.xml").write_text(configuration_xml(yarn))
        queue = f"yarn.scheduler.capacity.root.{QUEUE}"
        queues = {
            "yarn.scheduler.capacity.root.queues": QUEUE,
            f"{queue}.capacity": "100",
            f"{queue}.maximum-am-resource-percent": "1",
        }
        (self._conf / "capacity-scheduler.xml").write_text(configuration_xml(queues))


def _kerberized(keytab: Path) -> Mapping[str, str]:
    servers = ("resourcemanager", "nodemanager")
    return {
        **{f"yarn.{server}.principal": f"{_SERVICE}@{REALM}" for server in servers},
        **{f"yarn.{server}.keytab": str(keytab) for server in servers},
        "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
    }


def _java_home() -> str:
    java = shutil.which("java")
    assert java is not None
    return str(Path(java).resolve().parents[1])
