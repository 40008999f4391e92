"""HDFS for tests: one NameNode and one DataNode, each a process that can be killed alone.

All ports are free ports on loopback and stay the same over restarts; no names are resolved; the
user who runs the tests is the superuser. All files are in the caller's directory: `conf` (of both),
`name`, `data`, `temporary`, and a log for each process. Data survive a restart; a SIGKILL leaves
what a crash leaves.

With a KDC it is in Hadoop's secure mode: clients need tickets, blocks require tokens, and
connections are authenticated, or `encrypted`. The superuser is `hdfs`, and every user with a ticket
may do everything, unless `settings` enable permissions.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.hadoop.hadoop import configuration_xml, hadoop_command, management_bean
from harness.logins.kdc import REALM, Kdc
from harness.processes.server_process import (
    LEAST_START_SECONDS,
    RunningServer,
    RunningServers,
    ServerFailed,
    ServerProcess,
    free_ports,
)

_NAMENODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_SHELL: Final = "org.apache.hadoop.fs.FsShell"
_LOGGING: Final = """\
log4j.rootLogger=WARN, stderr
log4j.logger.org.apache.hadoop.hdfs.StateChange=INFO
log4j.logger.org.apache.hadoop.hdfs.server.namenode.NameNode=INFO
log4j.logger.org.apache.hadoop.hdfs.server.datanode.DataNode=INFO
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

_METRICS: Final = "*.period=1\n"  # seconds for which `calls` are remembered

_SERVICE: Final = "hdfs/127.0.0.1"
_HTTP: Final = "HTTP/127.0.0.1"
# For clients, too.
_KERBERIZED: Final = {
    "hadoop.security.authentication": "kerberos",
    "dfs.namenode.kerberos.principal": f"{_SERVICE}@{REALM}",
    "dfs.datanode.kerberos.principal": f"{_SERVICE}@{REALM}",
    "dfs.data.transfer.protection": "authentication",
}
_DATANODES_CALLS: Final = frozenset(
    {
        "BlockReceivedAndDeleted",
        "BlockReport",
        "RegisterDatanode",
        "SendHeartbeat",
        "VersionRequest",
    }
)
_ENCRYPTED: Final = {"hadoop.rpc.protection": "privacy", "dfs.encrypt.data.transfer": "true"}


class NameNode(RunningServer):
    """Holds names and block lists. Ready once files can be written, for which a DataNode must be
    running."""

    def __init__(
        self,
        process: ServerProcess,
        rpc_port: int,
        http_port: int,
        names: Path,
        format_: Sequence[str],
    ) -> None:
        """`format_` is the command that creates the folder `names`."""
        self.process = process
        self._rpc_port = rpc_port
        self._http_port = http_port
        self._names = names
        self._format = format_

    def spawn(self) -> None:
        """Starts the server; formats its folder before the first start."""
        if not self._names.exists():
            run = subprocess.run(
                self._format,
                capture_output=True,
                text=True,
                timeout=LEAST_START_SECONDS,
                check=False,
            )
            if run.returncode:
                output = f"{run.stdout}{run.stderr}"
                raise ServerFailed(f"formatting ended with {run.returncode}\n{output}")
        super().spawn()

    def ready(self) -> bool:
        state = management_bean(self._http_port, "NameNode", "FSNamesystemState")
        # A DataNode's capacity is known after its first heartbeat; before, it gets no blocks.
        return state.get("FSState") == "Operational" and state.get("CapacityTotal", 0) > 0

    def calls(self) -> Counter[str]:
        """The number of clients' calls since the start, by method, such as `GetBlockLocations`."""
        bean = management_bean(
            self._http_port, "NameNode", f"RpcDetailedActivityForPort{self._rpc_port}"
        )
        counts = {name.removesuffix("NumOps"): count for name, count in bean.items()}
        return Counter(
            {
                method: int(count)
                for method, count in counts.items()
                if f"{method}NumOps" in bean and f"Overall{method}NumOps" in bean
                if method not in _DATANODES_CALLS and not method.endswith("Exception")
            }
        )


class DataNode(RunningServer):
    """Holds the blocks. Ready once the NameNode has registered it."""

    def __init__(self, process: ServerProcess, http_port: int) -> None:
        self.process = process
        self._http_port = http_port

    def ready(self) -> bool:
        actors = management_bean(self._http_port, "DataNode", "DataNodeInfo").get(
            "BPServiceActorInfo", "[]"
        )
        return any(actor["ActorState"] == "RUNNING" for actor in json.loads(actors))


class RunningHdfs(RunningServers):
    """An HDFS: `with RunningHdfs(directory) as hdfs`. Has a `uri`, a `namenode` and a `datanode`.

    `configuration` is what a client should set besides the URI; `settings` are further ones of the
    servers, in hdfs-site.xml.
    """

    def __init__(
        self,
        directory: Path,
        *,
        heap: str = "128m",
        kdc: Kdc | None = None,
        encrypted: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._kdc = kdc
        rpc, namenode_http, data, datanode_http, datanode_ipc, proxy = free_ports(6)
        self._datanode_http = datanode_http
        self.uri = f"hdfs://127.0.0.1:{rpc}"
        self.configuration: Mapping[str, str] = {
            "dfs.replication": "1",
            # A file is closed once the NameNode knows its last block. A client that is too early
            # retries, by default after 400 ms: for every fourth file.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            "dfs.client.block.write.locateFollowingBlock.retries": "11",
            **({} if kdc is None else _KERBERIZED),
            **(_ENCRYPTED if encrypted else {}),
        }
        self._jvm = () if kdc is None else kdc.java_options
        self._conf, self._temporary = directory / "conf", directory / "temporary"
        self._heap = heap
        self._write_configuration(
            {
                **self.configuration,  # a client such as `hdfs dfs` reads this file first
                "fs.defaultFS": self.uri,
                "hadoop.tmp.dir": str(self._temporary),
                # Each waits up to a minute for the other, and notices it at once.
                "ipc.client.connect.retry.interval": "50",
                "ipc.client.connect.max.retries": "1200",
            },
            {
                **self.configuration,
                "dfs.namenode.name.dir": (directory / "name").as_uri(),
                "dfs.namenode.http-address": f"127.0.0.1:{namenode_http}",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.namenode.safemode.extension": "0",
                "dfs.namenode.safemode.min.datanodes": "1",
                # So that a small file can have many blocks.
                "dfs.namenode.fs-limits.min-block-size": "4096",
                "dfs.datanode.data.dir": (directory / "data").as_uri(),
                # In seconds; the time until a DataNode notices that its NameNode was restarted.
                "dfs.heartbeat.interval": "1",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.datanode.address": f"127.0.0.1:{data}",
                "dfs.datanode.http.address": f"127.0.0.1:{datanode_http}",
                "dfs.datanode.ipc.address": f"127.0.0.1:{datanode_ipc}",
                "dfs.datanode.http.internal-proxy.port": str(proxy),
                **({} if kdc is None else _servers(kdc.keytab(_SERVICE), kdc.keytab(_HTTP))),
                **(settings or {}),
            },
        )
        self.namenode = NameNode(
            self._process(_NAMENODE, "namenode.log"),
            rpc,
            namenode_http,
            directory / "name",
            self._command(_NAMENODE, "-format", "-nonInteractive"),
        )
        self.datanode = DataNode(self._process(_DATANODE, "datanode.log"), datanode_http)
        self.servers = (self.namenode, self.datanode)

    def bytes_written(self) -> int:
        """Returns the bytes that the DataNode has received since its start."""
        activity = management_bean(self._datanode_http, "DataNode", "DataNodeActivity-*")
        return int(activity["BytesWritten"])

    def spawn(self) -> None:
        # A DataNode waits for its NameNode, so it can start while that is being formatted.
        self.datanode.spawn()
        self.namenode.spawn()

    def as_superuser(self, *arguments: str) -> str:
        """Runs `hdfs dfs` with these arguments; returns its output."""
        environment = dict(os.environ)
        if self._kdc is not None:
            cache = self.directory / "tickets"
            self._kdc.kinit(_SERVICE, cache)
            environment["KRB5CCNAME"] = str(cache)
        run = subprocess.run(
            self._command(_SHELL, *arguments),
            capture_output=True, text=True, timeout=LEAST_START_SECONDS, check=False,
            env=environment,
        )  # fmt: skip
        assert run.returncode == 0, f"{arguments}: {run.stdout}{run.stderr}"
        return run.stdout

    def another_datanode(self) -> DataNode:
        """Returns a second DataNode, which its user starts and ends: `with … as second`."""
        data, http_port, ipc, proxy = free_ports(4)
        settings = {
            "dfs.datanode.data.dir": (self.directory / "data-2").as_uri(),
            "dfs.datanode.address": f"127.0.0.1:{data}",
            "dfs.datanode.http.address": f"127.0.0.1:{http_port}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}",
            "dfs.datanode.http.internal-proxy.port": str(proxy),
        }
        options = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        return DataNode(self._process(_DATANODE, "datanode-2.log", *options), http_port)

    def _process(self, main_class: str, log: str, *options: str) -> ServerProcess:
        return ServerProcess(self._command(main_class, *options), output=self.directory / log)

    def _command(self, *arguments: str) -> list[str]:
        return hadoop_command(
            *arguments,
            configuration=self._conf,
            temporary=self._temporary,
            heap=self._heap,
            jvm=self._jvm,
        )

    def _write_configuration(self, core: Mapping[str, str], hdfs: Mapping[str, str]) -> None:
        self._temporary.mkdir(parents=True, exist_ok=True)
        # The servers' web pages are not in the jars; without folders for them no server starts.
        for pages in ("hdfs", "datanode"):
            (self._conf / "webapps" / pages).mkdir(parents=True, exist_ok=True)
        (self._conf / "log4j.properties").write_text(_LOGGING)
        (self._conf / "hadoop-metrics2.properties").write_text(_METRICS)
        (self._conf / "core-site.xml").write_text(configuration_xml(core))
        (self._conf / "hdfs-site.xml").write_text(configuration_xml(hdfs))


def _servers(keytab: Path, of_http: Path) -> Mapping[str, str]:
    return {
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.keytab.file": str(keytab),
        "dfs.datanode.keytab.file": str(keytab),
        "dfs.web.authentication.kerberos.principal": f"{_HTTP}@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(of_http),
        # Servers on unprivileged ports would otherwise have to use HTTPS.
        "ignore.secure.ports.for.testing": "true",
        "dfs.permissions.enabled": "false",
    }
