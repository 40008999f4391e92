"""Does to a cluster what a script says, and brings everything back at the end."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from tests.campaigns import nemesis
from tests.campaigns.history import Done, Notes
from tests.campaigns.leaders import LeaderWatch
from tests.campaigns.nemesis import STOPS, Acts
from tests.campaigns.outcomes import Say
from tests.system.faults import Faults

SETTLES: Final = 60.0


class Nemesis(nemesis.Nemesis):
    def __init__(
        self,
        cluster: BrokerCluster,
        notes: Notes,
        seed: int,
        say: Say = lambda _: None,
        *,
        faults: Mapping[int, Faults] | None = None,
        watcher: LeaderWatch | None = None,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        """`faults`: of the brokers' disks. `topics`: what is looked at and spoilt, with the number
        of partitions."""
        super().__init__(notes, seed, say)
        self.cluster = cluster
        self._faults, self._watcher, self._topics = faults or {}, watcher, topics or {}
        # Whose fate nobody promises anything of: started without ZooKeeper, or on a bad disk.
        self.excused: set[int] = set()
        self._map_links_in_trouble = False

    @cached_property
    def acts(self) -> Acts:
        cluster = self.cluster
        kill, freeze = cluster.zookeepers.kill, cluster.zookeepers.freeze
        ends = {each: partial(self._end, each) for each in ("lose-power", "wipe", "cut-tail")}
        return {
            **ends,
            "kill": partial(self._end, "kill"),
            "stop": self._stop,
            "start": self.start,
            "freeze": lambda broker: cluster.alive(broker) and cluster.freeze(broker),
            "thaw": cluster.thaw,
            "thaw-all": lambda: [cluster.thaw(each) for each in cluster.ids],
            "kill-everywhere": lambda: self._end_all("kill"),
            "lose-power-everywhere": lambda: self._end_all("lose-power"),
            "start-everywhere": self.start_all,
            "cut": cluster.cut,
            "cut-one-way": cluster.cut_one_way,
            "reset": self._reset,
            "slow": cluster.slow,
            "cut-clients": lambda broker: cluster.to_clients[broker].cut(),
            "cut-map": self._of_map(cluster.cut_map),
            "reset-map": self._of_map(cluster.reset_map),
            "mend": self._mend,
            "kill-zookeeper": self._excusing(kill),
            "kill-leading-zookeeper": self._excusing(partial(kill, "leader")),
            "kill-following-zookeeper": self._excusing(partial(kill, "follower")),
            "start-zookeeper": self._excusing(cluster.zookeepers.start),
            "freeze-zookeeper": self._excusing(freeze),
            "freeze-leading-zookeeper": self._excusing(partial(freeze, "leader")),
            "freeze-following-zookeeper": self._excusing(partial(freeze, "follower")),
            "thaw-zookeeper": self._excusing(cluster.zookeepers.thaw),
            "fail-syncs": self._fail_syncs,
            "slow-syncs": lambda broker, s: self._faults[broker].delay_syncs(self._files, s),
            "heal-disk": lambda broker: self._faults[broker].no_more(),
            "pause": self.pause,
            "settle": self._settle,
            "until-deposed": self._wait_until_deposed,
        }

    def bring_back(self) -> None:
        """Nothing is wrong any more; brokers that were down are started, none waited for."""
        self.look()
        self.cluster.bring_back()
        self._map_links_in_trouble = False
        for faults in self._faults.values():
            faults.no_more()
        for broker in self.excused:
            if broker in self._faults and self.cluster.alive(broker):
                self.cluster.kill(broker)  # What was offline stays so until it starts again.
        self.start_all()
        self.notes.note(Done("everything is brought back"))

    def look(self) -> None:
        for broker, code in self.cluster.ended_by_itself().items():
            if broker not in self.excused and not self._map_in_trouble:
                self.trouble(f"broker {broker} ended by itself, with {code}")

    # ZooKeeper

    @property
    def _map_in_trouble(self) -> bool:
        """One of three ZooKeepers may be away, and a broker that runs must not notice."""
        return self._map_links_in_trouble or not self.cluster.zookeepers.serve

    def _excusing(self, act: Callable[..., object]) -> Callable[..., object]:
        """To those that start just now, ZooKeeper may not answer as to one that was started while
        it was away."""

        def acts(*words: object) -> None:
            for number, broker in self.cluster.brokers.items():
                runs = self.cluster.alive(number) and not self.cluster.is_frozen(number)
                if runs and not broker.ready():
                    self.excused.add(number)
            act(*words)

        return acts

    def _of_map(self, act: Callable[[int], object]) -> Callable[..., object]:
        def acts(broker: int) -> None:
            self._map_links_in_trouble = True
            act(broker)

        return self._excusing(acts)

    def _reset(self, one: int, other: int) -> None:
        self.cluster.between[one].reset(str(other))
        self.cluster.between[other].reset(str(one))

    def _mend(self) -> None:
        self.cluster.mend_links()
        self._map_links_in_trouble = False

    # Replicas

    def _settle(self) -> None:
        """Until all are in sync; what is wrong meanwhile may make that impossible."""
        cluster = self.cluster

        def is_settled() -> bool:
            self.look()
            whole = all(cluster.alive(each) for each in cluster.ids)
            return self._in_sync() or not whole or self._map_in_trouble

        with suppress(TimeoutError):
            wait_until(is_settled, within=SETTLES, what="all replicas are in sync")

    def _in_sync(self) -> bool:
        return all(self.cluster.in_sync(*each) for each in self._topics.items())

    def _wait_until_deposed(self, broker: int) -> None:
        watcher = self._watcher
        with suppress(TimeoutError):  # what is wrong may make that impossible
            wait_until(lambda: watcher is None or not watcher.leads(broker), within=SETTLES)

    # Brokers and their disks

    @property
    def _files(self) -> str:
        """What is in the paths of the topic's files, and in no others."""
        return f"/{next(iter(self._topics))}-"

    def _fail_syncs(self, broker: int) -> None:
        self.excused.add(broker)
        self._faults[broker].fail_syncs(self._files)

    def _end_all(self, verb: str) -> None:
        """At the same moment."""
        running = [each for each in self.cluster.ids if self.cluster.alive(each)]
        for broker in running:
            os.kill(self.cluster.brokers[broker].process.pid, signal.SIGSTOP)
        for broker in running:
            self._end(verb, broker)

    def _end(self, verb: str, broker: int, count: int = 0) -> None:
        cluster = self.cluster
        if not cluster.alive(broker):
            return
        # Others must have all of what this disk is about to lose.
        loses = verb in {"wipe", "cut-tail"} and self._in_sync()
        cluster.kill(broker)
        data_dir = cluster.brokers[broker].data_dir
        if verb == "lose-power" and data_dir.exists():
            self._faults[broker].lose_power(data_dir, self.chance)
        for topic in self._topics if loses else ():
            for each in data_dir.glob(f"{topic}-*"):
                if verb == "wipe":
                    shutil.rmtree(each)
                else:
                    _cut_tail(each, count)

    def _stop(self, broker: int) -> None:
        if self.cluster.alive(broker) and not self.cluster.is_frozen(broker):
            self.stop(
                f"broker {broker}",
                partial(self.cluster.stop, broker, within=STOPS),
                excused=self._map_in_trouble or broker in self.excused,
            )

    def start(self, broker: int) -> None:
        if self.cluster.alive(broker):
            return
        self.excused.discard(broker)
        if self._map_in_trouble or not self.cluster.zookeepers.whole:
            self.excused.add(broker)
        self.cluster.spawn(broker)

    def start_all(self) -> None:
        for broker in self.cluster.ids:
            self.start(broker)


def _cut_tail(partition_dir: Path, count: int) -> None:
    segments = sorted(partition_dir.glob("*.log"))
    if segments:
        os.truncate(segments[-1], max(0, segments[-1].stat().st_size - count))
