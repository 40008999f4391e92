"""Several Penstock brokers with their own ZooKeepers, and control over all connections between
them.

    clients   -> broker        a link to each broker
    broker    -> broker        a link to each broker, which knows the connecting broker
    broker    -> ZooKeeper     a link from each broker to each ZooKeeper

Each broker has two listeners: CLIENTS, and BETWEEN for other brokers. It advertises the links.
Ports stay the same over restarts. `ended_by_itself` reports brokers that ended unexpectedly.
"""

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, Self

from confluent_kafka.admin import AdminClient, NewTopic

from harness.penstock.broker import BrokerProcess
from harness.penstock.broker_metadata import NOBODY, ReportedPartition, ask_metadata
from harness.penstock.clusters.zookeepers import ZooKeepers
from harness.processes.frozen_processes import freeze
from harness.processes.links import ANYBODY, Link, Links, owner_of
from harness.processes.server_process import ServerFailed, free_ports
from harness.processes.waiting import wait_until

CLIENTS: Final = "CLIENTS"
BETWEEN: Final = "BETWEEN"
SESSION_SECONDS: Final = 4.0


class BrokerCluster:
    """Ready brokers with ids from 1: `with BrokerCluster(directory, brokers=3) as cluster`."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, object] | None = None,
        environments: Mapping[int, Mapping[str, str]] | None = None,
        data_dirs: Mapping[int, Path] | None = None,
        program: str = "penstock",
    ) -> None:
        """`program` is the module to run for each broker."""
        self.directory = directory
        self._program = program
        self.ids = tuple(range(1, brokers + 1))
        self.zookeepers = ZooKeepers(directory, zookeepers)
        self.links = Links()
        self.brokers: dict[int, BrokerProcess] = {}
        self.to_clients: dict[int, Link] = {}
        self.between: dict[int, Link] = {}
        self.to_zookeepers: dict[int, list[Link]] = {}
        self.named_clients: dict[str, int] = {}
        """Process ids by name, for cutting off one client with `to_clients[…].cut(name)`."""
        self._ended_by_us: set[int] = set(self.ids)
        self._frozen: set[int] = set()
        for broker_id in self.ids:
            self._add(
                broker_id,
                settings or {},
                (environments or {}).get(broker_id),
                (data_dirs or {}).get(broker_id),
            )

    def _add(
        self,
        broker_id: int,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None,
        data_dir: Path | None,
    ) -> None:
        servers = self.zookeepers.servers
        own_port, peer_port, own_link, peer_link, *map_links = free_ports(4 + len(servers))
        add = self.links.add
        self.to_clients[broker_id] = add(("127.0.0.1", own_port), own_link, self._client_at)
        self.between[broker_id] = add(("127.0.0.1", peer_port), peer_link, self._broker_at)
        self.to_zookeepers[broker_id] = [
            add(("127.0.0.1", server.port), link)
            for server, link in zip(servers, map_links, strict=True)
        ]
        link_addresses = ",".join(zookeeper.address for zookeeper in self.to_zookeepers[broker_id])
        listeners = [
            {"name": CLIENTS, "host": "127.0.0.1", "port": own_port, "advertised_port": own_link},
            {"name": BETWEEN, "host": "127.0.0.1", "port": peer_port, "advertised_port": peer_link},
        ]
        self.brokers[broker_id] = BrokerProcess(
            self.directory / f"broker-{broker_id}",
            zookeeper=f"{link_addresses}/cluster",
            broker_id=broker_id,
            data_dir=data_dir,
            settings={
                "listeners": listeners,
                "between_brokers": {"listener": BETWEEN},
                "rack": f"r{broker_id}",
                "auto_create_topics": False,
                "zookeeper_session_seconds": SESSION_SECONDS,
                "ledger": False,
                **settings,
            },
            environment=environment,
            program=self._program,
        )

    def _broker_at(self, port: int) -> str:
        live_servers = {
            str(broker_id): broker.process.pid
            for broker_id, broker in self.brokers.items()
            if broker_id not in self._ended_by_us
        }
        return owner_of(port, live_servers)

    def _client_at(self, port: int) -> str:
        return owner_of(port, dict(self.named_clients)) if self.named_clients else ANYBODY

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        return ",".join(self.to_clients[broker_id].address for broker_id in self.ids)

    @property
    def map_address(self) -> str:
        """The brokers' root in ZooKeeper, at an address that bypasses the links."""
        return f"{self.zookeepers.address}/cluster"

    # Brokers

    def spawn(self, broker_id: int) -> None:
        """Starts a broker without waiting."""
        self.brokers[broker_id].spawn()
        self._ended_by_us.discard(broker_id)

    def alive(self, broker_id: int) -> bool:
        return broker_id not in self._ended_by_us and self.brokers[broker_id].process.alive

    def kill(self, broker_id: int) -> None:
        self._ended_by_us.add(broker_id)
        self._frozen.discard(broker_id)
        self.brokers[broker_id].kill()

    def stop(self, broker_id: int, *, within: float = 60) -> int:
        """Sends SIGTERM and returns the exit code. Sends SIGKILL and raises ServerFailed if the
        broker has not stopped after `within` seconds."""
        self._ended_by_us.add(broker_id)
        try:
            return self.brokers[broker_id].terminate(within=within)
        except ServerFailed:
            self.brokers[broker_id].kill()
            raise

    def stop_side_by_side(self, *, within: float = 60) -> dict[int, int]:
        """Stops all running brokers at the same time; returns their exit codes, -9 for those that
        had to be killed."""
        running_ids = [number for number in self.ids if self.alive(number)]
        self._ended_by_us |= set(running_ids)
        for broker_id in running_ids:
            os.kill(self.brokers[broker_id].process.pid, signal.SIGTERM)
        end_time = time.monotonic() + within
        codes = dict.fromkeys(running_ids, -signal.SIGKILL.value)
        for broker_id in running_ids:
            process = self.brokers[broker_id].process
            with contextlib.suppress(ServerFailed):
                codes[broker_id] = process.wait(within=max(0.1, end_time - time.monotonic()))
            process.kill()
        return codes

    def freeze(self, broker_id: int) -> None:
        """Freezes a broker; returns once none of its threads is running."""
        self._frozen.add(broker_id)
        freeze(self.brokers[broker_id].process.pid)

    def thaw(self, broker_id: int) -> None:
        if broker_id in self._frozen:
            self._frozen.discard(broker_id)
            os.kill(self.brokers[broker_id].process.pid, signal.SIGCONT)

    def is_frozen(self, broker_id: int) -> bool:
        return broker_id in self._frozen

    def ended_by_itself(self) -> dict[int, int]:
        """Returns the exit codes of brokers that ended unexpectedly, each only once."""
        exit_codes = {}
        for broker_id in self.ids:
            code = None if broker_id in self._ended_by_us else self._exit_code(broker_id)
            if code is not None:
                exit_codes[broker_id] = code
                self._ended_by_us.add(broker_id)
        return exit_codes

    def _exit_code(self, broker_id: int) -> int | None:
        return self.brokers[broker_id].process.exit_code

    # Links

    def cut(self, first: int, second: int) -> None:
        """Cuts all connections between two brokers."""
        self.between[first].cut(str(second))
        self.between[second].cut(str(first))

    def cut_one_way(self, source: int, target: int) -> None:
        """Cuts the requests from `source` to `target`, but not those from `target` to `source`."""
        self.between[target].cut(str(source))

    def slow(self, first: int, second: int, seconds: float) -> None:
        self.between[first].slow(seconds, str(second))
        self.between[second].slow(seconds, str(first))

    def mend_links(self) -> None:
        to_zookeepers = chain.from_iterable(self.to_zookeepers.values())
        for link in (*self.to_clients.values(), *self.between.values(), *to_zookeepers):
            link.mend()

    def cut_map(self, broker_id: int) -> None:
        for link in self.to_zookeepers[broker_id]:
            link.cut()

    def reset_map(self, broker_id: int) -> None:
        for link in self.to_zookeepers[broker_id]:
            link.reset()

    # Topics

    def create_topic(
        self, name: str, *, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Creates a topic; `replicas` lists each partition's replicas, the preferred leader
        first."""
        assignment = [list(replica) for replica in replicas]
        request = NewTopic(name, len(replicas), replica_assignment=assignment, config=dict(configs))
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # must live until the answer
        admin.create_topics([request])[name].result(60)

    def reported_by(self, broker_id: int, topic: str) -> dict[int, ReportedPartition]:
        """Returns the topic's partitions as this broker reports them; empty if it does not
        answer."""
        try:
            return ask_metadata(self.brokers[broker_id].bootstrap, topic)
        except OSError:
            return {}

    def leader(self, topic: str, partition: int) -> int:
        """Returns the leader according to the first running broker that answers; NOBODY if there is
        no leader or no answer."""
        for broker_id in self.ids:
            if self.alive(broker_id) and not self.is_frozen(broker_id):
                partition_state = self.reported_by(broker_id, topic).get(partition)
                if partition_state is not None:
                    return partition_state.leader
        return NOBODY

    def in_sync(self, topic: str, partitions: int) -> bool:
        """Whether all running brokers report the same leaders, and all replicas are in sync."""
        views = [
            self.reported_by(number, topic)
            for number in self.ids
            if self.alive(number) and not self.is_frozen(number)
        ]
        return bool(views) and all(
            view.keys() == set(range(partitions))
            and view == views[0]
            and all(partition.whole for partition in view.values())
            for view in views
        )

    def wait_in_sync(self, topic: str, partitions: int, *, within: float) -> None:
        wait_until(
            partial(self.in_sync, topic, partitions),
            within=within,
            what=f"all replicas of {topic} are in sync",
            every=0.2,
        )

    # Start and stop

    def start(self, *, within: float = 120) -> None:
        """Starts all brokers and ZooKeepers that are not running, in parallel."""
        self.zookeepers.start()
        stopped_ids = [number for number in self.ids if not self.alive(number)]
        for broker_id in stopped_ids:
            self.spawn(broker_id)
        for broker_id in stopped_ids:
            broker = self.brokers[broker_id]
            broker.process.wait_ready(broker.ready, within=within)

    def bring_back(self) -> None:
        """Mends links, thaws processes and starts ZooKeepers; stopped brokers stay stopped."""
        self.mend_links()
        for broker_id in tuple(self._frozen):
            self.thaw(broker_id)
        self.zookeepers.thaw()
        self.zookeepers.start()

    def close(self) -> None:
        """Stops everything."""
        for broker_id in self.ids:
            self.kill(broker_id)
        self.zookeepers.close()
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
