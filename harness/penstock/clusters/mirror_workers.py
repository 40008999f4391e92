"""Workers of one mirror, as processes, and control over their connections.

    mirrors -> broker       the clusters' links; a mirror's requests can be cut alone
    mirrors -> ZooKeeper    links to that of the target

Workers are started one by one; ports and directories stay the same over restarts.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.mirror import MirrorProcess, side
from harness.processes.links import Link, Links, owner_of
from harness.processes.server_process import ServerFailed, free_ports


class Mirrors:
    """A mirror between two clusters, which it does not start or stop. No worker runs at first."""

    def __init__(
        self,
        directory: Path,
        source: tuple[str, BrokerCluster],
        target: tuple[str, BrokerCluster],
        *,
        workers: int = 1,
        registry: str = "",
        name: str = "mirror",
        settings: Mapping[str, object] | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        program: str = "penstock",
    ) -> None:
        """Takes both clusters with their names. `name` is the prefix of workers' directories, and
        with a number the name by which links and `environments` know them: `mirror-1`. `registry`
        is the target's, for a ledger. `program` is the module to run for each."""
        self.source, self.target = source[1], target[1]
        self.links = Links()
        self.map_links = self._map_links()
        self._prefix = f"{name}-"
        self.mirrors = {
            number: MirrorProcess(
                directory / self._name_of(number),
                source=side(source[0], self.source.bootstrap.split(",")),
                target=side(
                    target[0],
                    self.target.bootstrap.split(","),
                    zookeeper=",".join(link.address for link in self.map_links) + "/cluster",
                    **({"registry": registry} if registry else {}),
                ),
                settings=settings,
                environment=(environments or {}).get(self._name_of(number)),
                program=program,
            )
            for number in range(1, workers + 1)
        }
        self._ended_by_us: set[int] = set(self.mirrors)
        self._frozen: set[int] = set()

    def _name_of(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def _map_links(self) -> list[Link]:
        servers = self.target.zookeepers.servers
        return [
            self.links.add(("127.0.0.1", server.port), port, self._mirror_at)
            for server, port in zip(servers, free_ports(len(servers)), strict=True)
        ]

    def _mirror_at(self, port: int) -> str:
        return owner_of(port, dict(self.target.named_clients))

    @property
    def both(self) -> tuple[BrokerCluster, BrokerCluster]:
        return self.source, self.target

    # Mirrors

    def begin(self, number: int) -> None:
        """Starts a worker without waiting, unless it is running already."""
        if self.alive(number):
            return
        self.mirrors[number].spawn()
        self._ended_by_us.discard(number)
        self._name(number, self.mirrors[number].process.pid)

    def alive(self, number: int) -> bool:
        return number not in self._ended_by_us and self.mirrors[number].process.alive

    def kill(self, number: int) -> None:
        self._ended(number)
        self.mirrors[number].kill()

    def stop(self, number: int, *, within: float = 60) -> int:
        """Sends SIGTERM and returns the exit code. Sends SIGKILL and raises ServerFailed if the
        worker has not stopped after `within` seconds."""
        self.thaw(number)
        self._ended(number)
        try:
            return self.mirrors[number].terminate(within=within)
        except ServerFailed:
            self.mirrors[number].kill()
            raise

    def freeze(self, number: int) -> None:
        if self.alive(number):
            os.kill(self.mirrors[number].process.pid, signal.SIGSTOP)
            self._frozen.add(number)

    def thaw(self, number: int) -> None:
        if number in self._frozen:
            self._frozen.discard(number)
            os.kill(self.mirrors[number].process.pid, signal.SIGCONT)

    def ended_by_itself(self) -> dict[int, int | None]:
        """Returns the exit codes of workers that ended unexpectedly, each only once."""
        exit_codes = {}
        for number, mirror in self.mirrors.items():
            if number not in self._ended_by_us and not mirror.process.alive:
                exit_codes[number] = mirror.process.exit_code
                self._ended(number)
        return exit_codes

    def _ended(self, number: int) -> None:
        self._frozen.discard(number)
        self._ended_by_us.add(number)
        for cluster in self.both:
            cluster.named_clients.pop(self._name_of(number), None)

    def _name(self, number: int, pid: int) -> None:
        for cluster in self.both:
            cluster.named_clients[self._name_of(number)] = pid

    # Links

    def cut(self, number: int, cluster: BrokerCluster) -> None:
        """Cuts the mirror off from this cluster's brokers."""
        for link in cluster.to_clients.values():
            link.cut(self._name_of(number))

    def slow(self, number: int, cluster: BrokerCluster, seconds: float) -> None:
        for link in cluster.to_clients.values():
            link.slow(seconds, self._name_of(number))

    def cut_map(self, number: int) -> None:
        """Cuts the mirror off from the target's ZooKeeper."""
        for link in self.map_links:
            link.cut(self._name_of(number))

    def mend_map_links(self) -> None:
        for link in self.map_links:
            link.mend()

    def end(self) -> None:
        """Stops all workers."""
        for number in self.mirrors:
            self.kill(number)
        self.links.close()
