"""A loader on HDFS whose process and whose JVM are killed at one step after the other.

    python -m tests.loader.commit.killed_on_hdfs URI FIRST STRIDE KEY=VALUE …

Dies at step FIRST, and in further lives at every STRIDE-th step from there on, to the last.

Each life has a small JVM of its own, with nothing in it but Hadoop's client; the next one starts
while what was cut short is taken up. Prints how often it was killed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.java_gateway import GatewayParameters, JavaGateway

from cluster.jars import find_java
from loader.store.hadoop import HadoopStore
from tests.loader.commit.scenario import after_first_load, small_load, small_log
from tests.loader.commit.small_loader import assert_all_landed_once
from tests.loader.commit.stepping_store import At, SteppingStore

JARS: Final = ("hadoop-client-api-*", "hadoop-client-runtime-*", "py4j-*", "slf4j-api-*")
OPTIONS: Final = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Jvm:
    """Ends with the process that started it."""

    def __init__(self) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "jars"
        jars = ":".join(str(jar) for name in JARS for jar in folder.glob(f"{name}.jar"))
        command = [str(find_java()), *OPTIONS, "-cp", jars, "py4j.GatewayServer"]
        self.process = subprocess.Popen(
            [*command, "--die-on-broken-pipe", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def connect(self, settings: Sequence[str]) -> "Connected":
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        configuration = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for setting in settings:
            key, _, value = setting.partition("=")
            configuration.set(key, value)
        return Connected(gateway, configuration)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Connected(msgspec.Struct, frozen=True):
    """To a JVM, with Hadoop's settings."""

    gateway: Any
    configuration: Any

    def store(self, root: str) -> HadoopStore:
        return HadoopStore(root, self.gateway, self.configuration)


def main(uri: str, first: int, stride: int, settings: Sequence[str]) -> None:
    mine, another, killed = Jvm(), Jvm(), 0
    there = mine.connect(settings)
    try:
        while takes_up(another, there.store(f"{uri}/{killed}"), settings, first + stride * killed):
            another.end()
            another, killed = Jvm(), killed + 1
    finally:
        mine.end()
        another.end()
    sys.stdout.write(f"{killed}\n")


def takes_up(jvm: Jvm, store: HadoopStore, settings: Sequence[str], step: int) -> bool:
    """Whether there was such a step at which a loader was killed, and another one went on."""
    after_first_load(store)
    if not is_killed(jvm, store.root, settings, step):
        return False
    small_load(store, "next").load()
    try:
        assert_all_landed_once(store, small_log())
    except AssertionError as error:
        error.add_note(f"killed before step {step}")
        raise
    return True


def is_killed(jvm: Jvm, root: str, settings: Sequence[str], step: int) -> bool:
    """Whether there was such a step."""
    child = os.fork()
    if child == 0:
        try:
            at = At(step, lambda: die(jvm))
            small_load(SteppingStore(jvm.connect(settings).store(root), at), "killed").load()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, -signal.SIGKILL}, f"step {step}: the loader ended with {code}"
    return code != 0


def die(jvm: Jvm) -> None:
    os.kill(jvm.process.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
