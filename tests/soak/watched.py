"""What of a site is looked at."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from harness.server_process import ServerProcess
from tests.cluster_pipeline.site import TOPICS, Site
from tests.soak.flatness import Kind
from tests.soak.sampling import Looking, of_files, of_machine, of_process, of_zookeeper

_OUTPUTS: Final = ("*.log", "*/*.log")


def watched(site: Site) -> Iterator[Looking]:
    """`site` has been started."""
    directory = site.directory
    (zookeeper,) = site.cluster.zookeepers.servers
    yield of_process("zookeeper", lambda: _pid(zookeeper.process), Kind.JVM_MEMORY)
    for broker_id, broker in site.cluster.brokers.items():
        yield of_process(f"broker-{broker_id}", lambda of=broker.process: _pid(of))
    for number, registry in enumerate(site.registries, 1):
        yield of_process(f"registry-{number}", lambda of=registry.process: _pid(of))
    yield of_process("audit", lambda: _pid(site.audit.process))
    for agent in site.agents:
        yield of_process(agent.host, lambda of=agent.process: _pid(of))

    for broker_id, broker in site.cluster.brokers.items():
        name, data = f"broker-{broker_id}", broker.data_dir
        for topic in TOPICS:
            yield of_files(
                f"{name} log of {topic}",
                Kind.LOGS,
                lambda of=data, topic=topic: of.glob(f"{topic}-*"),
            )
        yield of_files(f"{name} other files", Kind.STATE, lambda of=data: _beside_logs(of))
    for agent in site.agents:
        yield of_files(f"{agent.host} journal", Kind.STATE, lambda of=agent.data_dir: [of])
    yield of_files("audit database", Kind.STATE, lambda: [site.audit.data_dir / "audit.db"])
    yield of_files("audit log ahead", Kind.AHEAD, lambda: [site.audit.data_dir / "audit.db-wal"])
    yield of_files("loader commit log", Kind.STATE, lambda: [site.loader.warehouse / "_penstock"])
    yield of_files("zookeeper files", Kind.STATE, lambda: [directory / "zookeeper-1" / "data"])
    yield of_files("said by programs", Kind.STATE, lambda: _outputs(directory))
    yield of_files("log files of applications", Kind.LOGS, lambda: [directory / "logs"])
    yield of_zookeeper(zookeeper.port)
    yield of_machine


def _pid(process: ServerProcess) -> int | None:
    return process.pid if process.alive else None


def _beside_logs(data: Path) -> Iterable[Path]:
    logs = tuple(f"{topic}-" for topic in TOPICS)
    return [each for each in data.iterdir() if not each.name.startswith(logs)]


def _outputs(directory: Path) -> list[Path]:
    return [path for pattern in _OUTPUTS for path in directory.glob(pattern)]
