"""Two clusters of real brokers, each with ZooKeepers of its own, and mirrors from one to the other.

    clients, mirrors -> broker      the cluster's links; what a mirror asks can be cut off alone
    mirrors          -> ZooKeeper   a link to that of the target

All of it is in our hands as a single cluster is: see harness/broker_cluster.py. Mirrors are begun
one by one; ports and directories stay the same over all starts.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from harness.broker_cluster import BrokerCluster
from harness.links import Link, Links, owner_of
from harness.mirror_process import MirrorProcess, side
from harness.server_process import ServerFailed, free_ports

SOURCE: Final = "dc1"
TARGET: Final = "offline"
PREFIX: Final = f"{SOURCE}."


class TwoClusters:
    """`with TwoClusters(directory) as clusters`: brokers are ready, and no mirror runs yet."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: tuple[int, int] = (1, 1),
        mirrors: int = 1,
        settings: Mapping[str, object] | None = None,
        mirror_settings: Mapping[str, object] | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        data_dirs: Mapping[int, Path] | None = None,
        mirror_program: str = "penstock",
    ) -> None:
        """`brokers`: of the source, of the target. `settings` are those of all brokers.
        `environments`: by names as `source-1`, `target-3`, `mirror-2`. `data_dirs`: of the
        target's brokers, where they are not in their directories. `mirror_program`: the module
        that is run for each mirror."""
        given = environments or {}
        self.source, self.target = (
            BrokerCluster(
                directory / role,
                brokers=count,
                settings={"cluster": name, **(settings or {})},
                environments={
                    each: given[f"{role}-{each}"]
                    for each in range(1, count + 1)
                    if f"{role}-{each}" in given
                },
                data_dirs=data_dirs if role == "target" else None,
            )
            for role, name, count in zip(
                ("source", "target"), (SOURCE, TARGET), brokers, strict=True
            )
        )
        self.links = Links()
        self.map_links = self._map_links()
        self.mirrors = {
            number: MirrorProcess(
                directory / f"mirror-{number}",
                source=side(SOURCE, self.source.bootstrap.split(",")),
                target=side(
                    TARGET,
                    self.target.bootstrap.split(","),
                    zookeeper=",".join(each.address for each in self.map_links) + "/cluster",
                ),
                settings={"prefix": PREFIX, **(mirror_settings or {})},
                environment=given.get(f"mirror-{number}"),
                program=mirror_program,
            )
            for number in range(1, mirrors + 1)
        }
        self._ended_by_us: set[int] = set(self.mirrors)
        self._frozen: set[int] = set()

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
        """Starts it, without waiting for anything, if it does not run."""
        if self.alive(number):
            return
        self.mirrors[number].spawn()
        self._ended_by_us.discard(number)
        self._name(number, self.mirrors[number].process.pid)

    def alive(self, number: int) -> bool:
        return number not in self._ended_by_us and self.mirrors[number].process.alive

    def kill(self, number: int) -> None:
        self._end(number)
        self.mirrors[number].kill()

    def stop(self, number: int, *, within: float = 60) -> int:
        """SIGTERM, and the exit code; ServerFailed, and SIGKILL, if it takes longer."""
        self.thaw(number)
        self._end(number)
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
        """Exit codes of mirrors that run no more, though nobody ended them; each is told once."""
        found = {}
        for number, mirror in self.mirrors.items():
            if number not in self._ended_by_us and not mirror.process.alive:
                found[number] = mirror.process.exit_code
                self._end(number)
        return found

    def _end(self, number: int) -> None:
        self._frozen.discard(number)
        self._ended_by_us.add(number)
        for cluster in self.both:
            cluster.named_clients.pop(f"mirror-{number}", None)

    def _name(self, number: int, pid: int) -> None:
        for cluster in self.both:
            cluster.named_clients[f"mirror-{number}"] = pid

    # Links

    def cut(self, number: int, cluster: BrokerCluster) -> None:
        """The mirror does not reach this cluster's brokers any more."""
        for link in cluster.to_clients.values():
            link.cut(f"mirror-{number}")

    def slow(self, number: int, cluster: BrokerCluster, seconds: float) -> None:
        for link in cluster.to_clients.values():
            link.slow(seconds, f"mirror-{number}")

    def cut_map(self, number: int) -> None:
        """The mirror does not reach the target's ZooKeeper any more."""
        for link in self.map_links:
            link.cut(f"mirror-{number}")

    def mend_links(self) -> None:
        """All: of mirrors and of clusters."""
        for link in self.map_links:
            link.mend()
        for cluster in self.both:
            cluster.mend_links()

    # Beginning and end

    def start(self) -> None:
        for cluster in self.both:
            cluster.start()

    def close(self) -> None:
        """Nothing is left running."""
        for number in self.mirrors:
            self.kill(number)
        for cluster in self.both:
            cluster.close()
        self.links.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
