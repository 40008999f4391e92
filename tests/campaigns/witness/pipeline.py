"""Broker, registry, audit and loads of a checkout of Penstock, as real processes on loopback.

The checkout is any: its `.venv/bin/penstock` is run, and nothing of it is imported. One pipeline
serves many scripts, one after the other and side by side, each with a topic of its own. What a
program is told is what docs/ say of its configuration; only times are shorter.
"""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from typing import Any, Final
from urllib.parse import urlencode

from harness.kafka.apache_kafka import QUICK_JVM, ApacheKafka
from harness.processes.server_process import ServerProcess, free_ports
from harness.processes.waiting import wait_until
from tests.campaigns.disks import SmallDisk
from tests.campaigns.loading import Loader
from tests.campaigns.witness.brokers import Brokers
from tests.campaigns.witness.programs import START, Program, ask
from tests.elsewhen.clock import Clock, compile_clock, environment, own_clock

WINDOW: Final = 5
GRACE: Final = 3.0
CLUSTER: Final = "test"
BROKER_DISK: Final = "512m"


class Pipeline:
    """`with Pipeline(directory, checkout) as pipeline`."""

    def __init__(
        self,
        directory: Path,
        checkout: Path,
        *,
        kafka: bool = False,
        small_disk: bool = False,
        brokers: int = 1,
    ) -> None:
        """`small_disk`: the first broker's data are on one of their own, that can be filled."""
        self.directory = directory
        self.checkout = checkout
        zookeeper, registry, self.audit_port, counter = free_ports(4)
        self.happened: Counter[str] = Counter()  # what was done to brokers, and came of it
        self.kafka: ApacheKafka | None = None
        self._zookeeper: ServerProcess | None = None
        self.brokers: Brokers | None = None
        self.counter: Program | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.registry_url = f"http://127.0.0.1:{registry}"
        if kafka:
            self.kafka = ApacheKafka(
                directory / "kafka",
                settings={"log.flush.interval.messages": "1"},
                heap="512m",
                jvm=QUICK_JVM,
            )
            self.bootstrap = self.kafka.bootstrap
        else:
            self._zookeeper_port = zookeeper
            self.map_address = f"127.0.0.1:{zookeeper}/witness"
            self._zookeeper = ServerProcess(
                [
                    *(str(checkout / ".venv/bin/penstock"), "zookeeper", "--port", str(zookeeper)),
                    *("--data-dir", str(directory / "zookeeper")),
                ],
                output=directory / "zookeeper.log",
                directory=directory,
            )
            self.brokers = Brokers(
                checkout,
                directory,
                {
                    "cluster": CLUSTER,
                    "zookeeper": self.map_address,
                    "registry": self.registry_url,
                    "window": WINDOW,
                    "ledger_interval": 0.5,
                    "zookeeper_session_seconds": 4,
                },
                brokers,
            )
            self.brokers.happened = self.happened
            self.bootstrap = self.brokers.bootstrap
        self.registry = Program(
            checkout,
            "registry",
            directory / "registry",
            {
                "cluster": CLUSTER,
                "port": registry,
                "brokers": self.bootstrap.split(","),
                "replication_factor": self.replicas,
            },
            http_port=registry,
        )
        audit = {
            "cluster": CLUSTER,
            "brokers": self.bootstrap.split(","),
            "registry": self.registry_url,
            "port": self.audit_port,
            "data_dir": str(directory / "audit" / "data"),
            "window": WINDOW,
            "grace": GRACE,
            "poll": 0.2,
            "alerts": {"silent": 3 * WINDOW},
        }
        self.audit = Program(
            checkout, "audit", directory / "audit", audit, http_port=self.audit_port
        )
        if kafka:
            self.counter = Program(
                checkout,
                "audit",
                directory / "counter",
                {
                    **audit,
                    "port": counter,
                    "data_dir": str(directory / "counter" / "data"),
                    "count": {"interval": 0.5},
                },
                http_port=counter,
                options=["--count"],
            )
        self.programs = {"registry": self.registry, "audit": self.audit}
        self.topics: list[str] = []  # of the scripts that run
        self.damaged: set[str] = set()  # of these, where a replica cannot be copied, or served
        self.full = False  # the disk of the first broker's data
        self._disk: SmallDisk | None = None
        if small_disk and self.brokers is not None:
            self._disk = SmallDisk(self.brokers.data[0], BROKER_DISK)
        self._kafka_frozen = False
        self.loader = Loader(
            directory,
            {
                "cluster": CLUSTER,
                "brokers": self.bootstrap.split(","),
                "registry": self.registry_url,
                "window": WINDOW,
            },
            [str(checkout / ".venv/bin/penstock")],
        )

    @property
    def has_small_disk(self) -> bool:
        return self._disk is not None

    def __enter__(self) -> "Pipeline":
        try:
            if self._disk is not None:
                self._disk.mount()
            if self._zookeeper is not None:
                self._start_zookeeper(self._zookeeper)
            if self.brokers is not None:
                self.brokers.start_all()
            self.start_broker()
            self.registry.start()
            self.audit.start()
            if self.counter is not None:
                self.counter.spawn()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_zookeeper(self, process: ServerProcess) -> None:
        """It gives up, and so do brokers, before a JVM has started on a machine that is busy."""

        def answers() -> bool:
            if not process.alive:
                process.spawn()
            with suppress(OSError):
                create_connection(("127.0.0.1", self._zookeeper_port), timeout=5).close()
                return True
            return False

        wait_until(answers, within=START, what="ZooKeeper answers")

    def close(self) -> None:
        self._thaw_in_any_case()
        for each in (self.registry, self.audit):
            each.thaw()
        self.loader.end()
        if self.counter is not None:
            self.counter.stop()
        for each in (self.audit, self.registry):
            each.stop()
        if self.kafka is not None:
            self.kafka.stop()
        if self.brokers is not None:
            self.brokers.stop()
        if self._disk is not None:
            self._disk.unmount()
        if self._zookeeper is not None and self._zookeeper.alive:
            with suppress(Exception):
                self._zookeeper.terminate(within=20)
            self._zookeeper.kill()

    # The broker whose turn it is, or Apache Kafka

    @property
    def replicas(self) -> int:
        """Of each partition."""
        return self.brokers.count if self.brokers is not None else 1

    @property
    def broker_process(self) -> ServerProcess:
        if self.kafka is not None:
            return self.kafka.process
        assert self.brokers is not None
        return self.brokers.in_trouble.process

    @property
    def serving(self) -> bool:
        """Whether clients are served, now or soon."""
        if self.brokers is not None:
            return self.brokers.serving
        return self.broker_process.alive and not self._kafka_frozen

    @property
    def serving_unclean(self) -> bool:
        """The same of topics that any one broker may lead alone."""
        return self.brokers.serving_unclean if self.brokers is not None else self.serving

    def start_broker(self) -> None:
        if self.brokers is not None:
            self.brokers.start(self._shared_topics())
        elif self.kafka is not None and not self.broker_process.alive:
            # What it said at an earlier start is no sign that it is there.
            self.kafka.process.output.unlink(missing_ok=True)
            self.kafka.start()

    def kill_broker(self) -> None:
        if self.brokers is not None:
            self.brokers.kill()
        else:
            self.broker_process.kill()

    def freeze_broker(self) -> None:
        if self.brokers is not None:
            self.brokers.freeze()
        elif self.broker_process.alive:
            subprocess.run(["kill", "-STOP", str(self.broker_process.pid)], check=True)
            self._kafka_frozen = True

    def thaw_broker(self) -> None:
        if self.brokers is not None:
            self.brokers.thaw(self._shared_topics())
        elif self.broker_process.alive:
            subprocess.run(["kill", "-CONT", str(self.broker_process.pid)], check=True)
        self._kafka_frozen = False

    def _thaw_in_any_case(self) -> None:
        """Whatever becomes of it: it is about to be ended."""
        if self.brokers is not None:
            self.brokers.in_trouble.thaw()
        else:
            self.thaw_broker()

    def _shared_topics(self) -> list[str]:
        """Those of which all replicas come to be in sync again."""
        whole = [each for each in self.topics if each not in self.damaged]
        return [*whole, "_audit", "_schemas"]

    def fill_broker_disk(self) -> None:
        self.full = self._disk is not None and self._disk.fill()

    def free_broker_disk(self) -> None:
        if self._disk is not None:
            self._disk.free()
        self.full = False

    def replica_dirs(self, topic: str) -> list[Path]:
        """Of all brokers, if all are dead; else none."""
        if self.brokers is None or not self.brokers.all_dead:
            return []
        return [each / f"{topic}-0" for each in self.brokers.data]

    def partition_dir(self, topic: str) -> Path:
        """Of the broker whose turn it is."""
        data = self.kafka.data_dir if self.kafka is not None else None
        if self.brokers is not None:
            data = self.brokers.troubled_data
        assert data is not None
        return data / f"{topic}-0"

    def offline(self) -> set[str]:
        """Topics that a broker says it cannot serve."""
        return self.brokers.offline() if self.brokers is not None else set()

    def repair(self, topics: Sequence[str]) -> None:
        if self.brokers is not None:
            self.brokers.repair(self.checkout, topics)

    def ahead(self, seconds: float) -> dict[str, str]:
        """What a program is told so that its clock is so much ahead; of others nothing."""
        if not seconds or shutil.which("cc") is None:
            return {}
        own = own_clock()
        clock = Clock(self.directory / "clock")
        clock.be_ahead(seconds + (own.ahead() if own is not None else 0))
        return environment(compile_clock(self.directory), clock, os.environ)

    # The audit

    def wipe_audit(self) -> None:
        self.audit.kill()
        shutil.rmtree(self.directory / "audit" / "data", ignore_errors=True)

    def api(self, path: str, **query: object) -> dict[str, Any]:
        """An answer of `/api/v1`, or {} if there is none."""
        wanted = urlencode({name.rstrip("_"): value for name, value in query.items()})
        status, body = ask(self.audit_port, f"/api/v1/{path}?{wanted}")
        if status != 200:
            return {}
        answer = json.loads(body)
        assert isinstance(answer, dict)
        return answer

    def report(self, topic: str, since: int) -> tuple[int, dict[str, Any], str]:
        """Exit code, the answer, and what was said on stderr, of `penstock report --json`."""
        begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(since / 1000))
        command = [str(self.checkout / ".venv/bin/penstock"), "report", topic, "--json"]
        run = subprocess.run(
            [*command, "--from", begin, "--audit", f"http://127.0.0.1:{self.audit_port}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.directory,
        )
        try:
            answer = json.loads(run.stdout)
        except ValueError:
            answer = {}
        return run.returncode, answer, run.stderr

    def operate(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Any other command of `penstock`, run to its end."""
        return subprocess.run(
            [str(self.checkout / ".venv/bin/penstock"), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.directory,
        )

    def bring_back(self) -> None:
        """All shared programs run again."""
        self.free_broker_disk()
        self.thaw_broker()
        for each in (self.registry, self.audit):
            each.thaw()
        self.start_broker()
        for each in (self.registry, self.audit):
            if not each.alive:
                each.spawn()
        if self.counter is not None:
            self.counter.spawn()
        for each in (self.registry, self.audit):
            wait_until(each.ready, within=START, what=f"{each.name} is ready", every=0.1)
