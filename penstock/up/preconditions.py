"""Checks the preconditions of a start, and explains in one line each one that is not met.

Checking changes nothing, except that the directory is created.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Final

from cluster.errors import NoJava
from cluster.zookeeper_server.jars import find_java
from ground.files.file_system import write_error_words
from ground.network import listening
from penstock.cli.failures import missing_extra
from penstock.directory.errors import AlreadyRunning
from penstock.directory.lock import Lock
from penstock.directory.places import HOST, PRIVATE, MirrorPorts, Places, Ports

# Everything that the extra `all` brings, as modules.
MODULES: Final = (
    *("h11", "httptools", "inotify_simple", "joserfc", "kazoo", "numpy"),
    *("packaging", "prometheus_client", "pyarrow", "pyspark", "starlette", "uvicorn", "uvloop"),
    "zstandard",
)
LOWEST_JAVA: Final = 17
LEAST_FREE_BYTES: Final = 1_000_000_000
_JAVA_SECONDS: Final = 20.0
_PORT_SECONDS: Final = 2.0  # for programs that were just killed to release their ports
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL_JAVA: Final = "apt install default-jre-headless"
_LISTENERS: Final = {
    "zookeeper": "ZooKeeper",
    "broker": "the broker",
    "broker_http": "the broker's metrics",
    "registry": "the registry",
    "audit": "the audit",
    "agent_http": "the agent's metrics",
    "offline_broker": "the offline cluster's broker",
    "offline_broker_http": "its metrics",
    "offline_registry": "the offline cluster's registry",
    "mirror_http": "the mirror's metrics",
}


def problems(places: Places, ports: Ports, mirror: MirrorPorts | None = None) -> list[str]:
    """Returns a line for each problem; empty if the pipeline can be started."""
    all_ports = ports._asdict() | (mirror._asdict() if mirror else {})
    lines = [*_extras(), *_java(), *(_one_cluster(places) if mirror else ())]
    if directory_problems := list(_directory(places)):
        return [*lines, *directory_problems, *_taken(all_ports)]
    try:
        with Lock(places.lock):
            pass
    except AlreadyRunning as error:
        return [*lines, str(error)]  # it also occupies the ports
    except OSError as error:
        lines.append(f"{places.lock} cannot be used ({error.strerror}): choose another --dir")
    return [*lines, *_taken(all_ports)]


def java_version(output: str) -> int | None:
    """Returns the major version in the output of `java -version`."""
    match = _JAVA_VERSION.search(output)
    return int(match[1]) if match else None


def _extras() -> Iterator[str]:
    missing_modules = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing_modules:
        yield missing_extra("penstock up", ", ".join(missing_modules), "all")


def _java() -> Iterator[str]:
    try:
        java = find_java()
    except NoJava:
        yield (
            "ZooKeeper and Spark need Java, which is neither on the PATH nor in JAVA_HOME: "
            f"{_INSTALL_JAVA}"
        )
        return
    try:
        result = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"{java} does not work: {error}"
        return
    version = java_version((result.stderr + result.stdout).decode(errors="replace"))
    if version is None:
        yield f"{java} does not report its version: {_INSTALL_JAVA}"
    elif version < LOWEST_JAVA:
        yield f"{java} is Java {version}, but Spark needs at least {LOWEST_JAVA}: {_INSTALL_JAVA}"


def _one_cluster(places: Places) -> Iterator[str]:
    if places.data("broker").exists() and not places.data("mirror").exists():
        yield (
            f"{places.directory} was created without a mirror, and its tables are loaded from its "
            "only cluster: choose another --dir for two clusters"
        )


def _directory(places: Places) -> Iterator[str]:
    directory = places.directory
    try:
        directory.mkdir(PRIVATE, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        free_bytes = shutil.disk_usage(directory).free
    except OSError as error:
        reason = write_error_words(error, directory)
        if directory.is_file():
            reason = "it is a file"
        elif directory.is_symlink() and not directory.exists():
            reason = "it is a dangling link"
        yield f"cannot write to {directory} ({reason}): choose another --dir"
        return
    if free_bytes < LEAST_FREE_BYTES:
        yield (
            f"{directory} has {free_bytes // 1_000_000:,} MB left, but needs "
            f"{LEAST_FREE_BYTES // 1_000_000:,}: free some space, or choose another --dir"
        )


def _taken(ports: Mapping[str, int]) -> Iterator[str]:
    taken_ports = list(_unusable(ports))
    yield from taken_ports
    if taken_ports:
        yield "stop the programs that use them, or choose others with --port-base, such as 19000"


def _unusable(ports: Mapping[str, int]) -> Iterator[str]:
    deadline = time.monotonic() + _PORT_SECONDS
    for name, port in ports.items():
        try:
            while not (is_free := listening.is_free(HOST, port)) and time.monotonic() < deadline:
                time.sleep(0.1)
        except OSError as error:
            yield f"port {port}, for {_LISTENERS[name]}, cannot be used: {error.strerror}"
            continue
        if not is_free:
            owner = listening.who_listens(port)
            yield (
                f"port {port}, for {_LISTENERS[name]}, is in use{f' by {owner}' if owner else ''}"
            )
