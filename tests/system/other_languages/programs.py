"""Programs that use the Kafka clients of Go, Node.js and Rust.

They are built once and kept below `.cache/`, in a folder named by a hash of their sources.
"""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from harness.java.maven_jars import CACHE

_HERE: Final = Path(__file__).parent
_NODE = _HERE / "kafkajs"
_PREPARED_WITHIN: Final = 600.0  # seconds: it downloads


class ClientUnavailable(Exception):
    """Says why a client is not available here."""


class Command(msgspec.Struct, frozen=True):
    """The command line of a program, and its additions to our environment."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Client(msgspec.Struct, frozen=True):
    """`program` returns the command for a task, or raises ClientUnavailable."""

    name: str
    version: str
    made: str
    program: Callable[[str], Command]
    reads: bool


@functools.cache
def _built_by_go(sources: Path, task: str) -> Command:
    made = _kept(sources, "client", ("go",))
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent) as fresh:
            built = Path(fresh) / made.name
            command = ["go", "build", "-buildvcs=false", "-o", str(built), "."]
            environment = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "TMPDIR": fresh}
            _prepare(command, sources, environment)
            built.replace(made)
    return Command([str(made), task], os.environ)


def _franz_go(task: str) -> Command:
    return _built_by_go(_HERE / "franz_go", task)


def _sarama(task: str) -> Command:
    return _built_by_go(_HERE / "sarama", task)


def _kafka_go(task: str) -> Command:
    return _built_by_go(_HERE / "kafka_go", task)


@functools.cache
def _rskafka(task: str) -> Command:
    sources = _HERE / "rskafka"
    made = _kept(sources, "client", ("cargo",))
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent) as fresh:
            command = ["cargo", "build", "--locked", "--target-dir", fresh]
            _prepare(command, sources, {"CARGO_PROFILE_DEV_DEBUG": "0"})
            (Path(fresh) / "debug" / made.name).replace(made)
    return Command([str(made), task], os.environ)


@functools.cache
def node_modules(package: Path) -> Path:
    """The modules of a folder's lock file, installed by npm. Raises ClientUnavailable."""
    modules = _kept(package, "node_modules", ("node", "npm"))
    if not modules.exists():
        with tempfile.TemporaryDirectory(dir=modules.parent) as fresh:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(package / name, fresh)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            _prepare(command, Path(fresh), {"TMPDIR": fresh})
            _put(Path(fresh) / modules.name, modules)
    return modules


def _kafkajs(task: str) -> Command:
    modules = node_modules(_NODE)
    script = _NODE / f"{task}.js"
    return Command(["node", str(script)], {**os.environ, "NODE_PATH": str(modules)})


# The last one that Go 1.19 builds, which Debian 12 has.
FRANZ_GO: Final = Client("franz-go", "1.16.1", "built by Go", _franz_go, reads=True)
# A group's member, and nothing else. Go 1.19 builds this one, too.
SARAMA: Final = Client("sarama", "1.42.1", "built by Go", _sarama, reads=False)
# Reads a partition, and nothing else.
KAFKA_GO: Final = Client("kafka-go", "0.4.47", "built by Go", _kafka_go, reads=True)
# Reads a partition, and nothing else.
RSKAFKA: Final = Client("rskafka", "0.6.0", "built by Cargo", _rskafka, reads=True)
# Its consumers are members of a group, and nothing else.
KAFKAJS: Final = Client("kafkajs", "2.2.4", "by npm", _kafkajs, reads=False)


def _kept(sources: Path, name: str, programs: Sequence[str]) -> Path:
    """The place for what is built from these sources; its parent exists."""
    for program in programs:
        if shutil.which(program) is None:
            raise ClientUnavailable(f"{program} is not installed")
    digest = hashlib.sha256()
    for source in sorted(sources.iterdir()):
        digest.update(source.read_bytes())
    folder = CACHE / f"{sources.name}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _put(made: Path, place: Path) -> None:
    """Another test process may have been first."""
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise


def _prepare(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
    try:
        ended = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_PREPARED_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClientUnavailable(f"{command[0]} was not ready within 10 minutes") from None
    if ended.returncode:
        lines = (ended.stdout + ended.stderr).strip().splitlines() or ["no output"]
        raise ClientUnavailable(f"`{' '.join(command[:2])}` failed: {lines[-1]}")
