"""Does to a cluster what a script says, and brings everything back at the end.

An action that makes no sense where it stands (to start what runs, to kill what is dead) does
nothing, so that every part of a script is a script.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.broker_cluster import BrokerCluster
from harness.server_process import ServerFailed
from harness.waiting import wait_until
from tests.cluster_history.history import Done, History, Trouble
from tests.cluster_history.map_watcher import MapWatcher
from tests.cluster_history.script import Action, Script
from tests.system.faults import Faults

SETTLES: Final = 60.0
STOPS: Final = 60.0
DEPOSED_WITHIN: Final = 60.0


class Nemesis:
    def __init__(  # noqa: PLR0917  each is another part
        self,
        cluster: BrokerCluster,
        faults: Mapping[int, Faults],
        history: History,
        watcher: MapWatcher | None,
        script: Script,
        topic: str,
        partitions: int,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster, self._faults, self._history = cluster, faults, history
        self._watcher = watcher
        self._script, self._topic, self._partitions = script, topic, partitions
        self._say = say
        # Whose fate nobody promises anything of: started without ZooKeeper, or on a bad disk.
        self._excused: set[int] = set()
        self._map_links_in_trouble = False

    def play(self) -> None:
        for number, action in enumerate(self._script.actions):
            self._say(str(action))
            chance = random.Random(f"{self._script.seed} {number} {action}")
            self._act(action, chance)
            self._history.note(Done(str(action)))
            self._look_who_ended()

    def bring_back(self) -> None:
        """Nothing is wrong any more; brokers that were down are started, none waited for."""
        self._look_who_ended()
        self._cluster.bring_back()
        self._map_links_in_trouble = False
        for broker, faults in self._faults.items():
            faults.no_more()
            if broker in self._excused and self._cluster.alive(broker):
                self._cluster.kill(broker)  # What was offline stays so until it starts again.
        self._start_all()
        self._history.note(Done("everything is brought back"))

    def _act(self, action: Action, chance: random.Random) -> None:
        cluster, words = self._cluster, action.words
        if action.verb.endswith("zookeeper") or action.verb in {"cut-map", "reset-map"}:
            self._excuse_who_starts()
        match action.verb, [int(each) for each in words if each.isdigit()]:
            case "pause", _:
                self._pause(float(words[0]))
            case "settle", _:
                self._settle(SETTLES)
            case "until-deposed", [broker]:
                self._wait_until_deposed(broker)
            case "start", [broker]:
                self._start(broker)
            case "start-everywhere", _:
                self._start_all()
            case ("kill" | "stop" | "lose-power" | "wipe" | "cut-tail") as verb, [broker, *_]:
                if cluster.alive(broker):
                    self._end(verb, broker, words, chance)
            case ("kill-everywhere" | "lose-power-everywhere") as verb, _:
                running = [each for each in cluster.ids if cluster.alive(each)]
                for broker in running:
                    os.kill(cluster.brokers[broker].process.pid, signal.SIGSTOP)
                for broker in running:
                    self._end(verb.removesuffix("-everywhere"), broker, words, chance)
            case "freeze", [broker]:
                if cluster.alive(broker):
                    cluster.freeze(broker)
            case "thaw", [broker]:
                cluster.thaw(broker)
            case "cut", [one, other]:
                cluster.cut(one, other)
            case "cut-one-way", [one, other]:
                cluster.cut_one_way(one, other)
            case "reset", [one, other]:
                cluster.between[one].reset(str(other))
                cluster.between[other].reset(str(one))
            case "slow", [one, other, *_]:
                cluster.slow(one, other, float(words[2]))
            case "cut-clients", [broker]:
                cluster.to_clients[broker].cut()
            case "cut-map", [broker]:
                self._map_links_in_trouble = True
                cluster.cut_map(broker)
            case "reset-map", [broker]:
                self._map_links_in_trouble = True
                cluster.reset_map(broker)
            case "mend", _:
                cluster.mend_links()
                self._map_links_in_trouble = False
            case "kill-zookeeper", _:
                cluster.zookeepers.kill()
            case "kill-leading-zookeeper", _:
                cluster.zookeepers.kill("leader")
            case "kill-following-zookeeper", _:
                cluster.zookeepers.kill("follower")
            case "start-zookeeper", _:
                cluster.zookeepers.start()
            case "freeze-zookeeper", _:
                cluster.zookeepers.freeze()
            case "freeze-leading-zookeeper", _:
                cluster.zookeepers.freeze("leader")
            case "freeze-following-zookeeper", _:
                cluster.zookeepers.freeze("follower")
            case "thaw-zookeeper", _:
                cluster.zookeepers.thaw()
            case "fail-syncs", [broker]:
                self._excused.add(broker)
                self._faults[broker].fail_syncs(self._files)
            case "slow-syncs", [broker, *_]:
                self._faults[broker].delay_syncs(self._files, float(words[1]))
            case "heal-disk", [broker]:
                self._faults[broker].no_more()
            case _:
                raise AssertionError(f"nobody knows how to {action}")

    @property
    def _map_in_trouble(self) -> bool:
        """One of three ZooKeepers may be away, and a broker that runs must not notice."""
        return self._map_links_in_trouble or not self._cluster.zookeepers.serve

    @property
    def _files(self) -> str:
        """What is in the paths of the topic's files, and in no others."""
        return f"/{self._topic}-"

    def _wait_until_deposed(self, broker: int) -> None:
        with contextlib.suppress(TimeoutError):  # what is wrong may make that impossible
            wait_until(
                lambda: self._watcher is None or not self._watcher.leads(broker),
                within=DEPOSED_WITHIN,
                what=f"broker {broker} leads nothing",
            )

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            self._look_who_ended()

    def _settle(self, within: float) -> bool:
        """Whether all came into sync; what is wrong meanwhile may make that impossible."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            if self._cluster.in_sync(self._topic, self._partitions):
                return True
            whole = all(self._cluster.alive(each) for each in self._cluster.ids)
            if not whole or self._map_in_trouble:
                return False
            self._pause(0.25)
        return False

    def _end(self, verb: str, broker: int, words: tuple[str, ...], chance: random.Random) -> None:
        cluster = self._cluster
        if verb == "stop":
            self._stop(broker)
            return
        # Others must have all of what this disk is about to lose.
        everywhere = verb not in {"wipe", "cut-tail"} or cluster.in_sync(
            self._topic, self._partitions
        )
        cluster.kill(broker)
        data_dir = cluster.brokers[broker].data_dir
        if verb == "lose-power" and data_dir.exists():
            self._faults[broker].lose_power(data_dir, chance)
        if verb == "wipe" and everywhere:
            for each in data_dir.glob(f"{self._topic}-*"):
                shutil.rmtree(each)
        if verb == "cut-tail" and everywhere:
            for each in data_dir.glob(f"{self._topic}-*"):
                _cut_tail(each, int(words[1]))

    def _stop(self, broker: int) -> None:
        if self._cluster.is_frozen(broker):
            return
        excused = self._map_in_trouble or broker in self._excused
        try:
            code = self._cluster.stop(broker, within=STOPS)
        except ServerFailed:
            if not excused:
                what = f"broker {broker} did not stop within {STOPS:g} s"
                self._history.note(Trouble(f"trouble: {what}"))
        else:
            # It may just have been started: nobody hears a signal before it listens for one.
            if code not in {0, -signal.SIGTERM} and not excused:
                self._history.note(Trouble(f"trouble: broker {broker} stopped with {code}"))

    def _start(self, broker: int) -> None:
        if self._cluster.alive(broker):
            return
        self._excused.discard(broker)
        if self._map_in_trouble or not self._cluster.zookeepers.whole:
            self._excused.add(broker)
        self._cluster.spawn(broker)

    def _excuse_who_starts(self) -> None:
        """To them ZooKeeper may not answer as to one that was started while it was away."""
        for broker_id, broker in self._cluster.brokers.items():
            runs = self._cluster.alive(broker_id) and not self._cluster.is_frozen(broker_id)
            if runs and not broker.ready():
                self._excused.add(broker_id)

    def _start_all(self) -> None:
        for broker in self._cluster.ids:
            self._start(broker)

    def _look_who_ended(self) -> None:
        for broker, code in self._cluster.ended_by_itself().items():
            if broker not in self._excused and not self._map_in_trouble:
                what = f"broker {broker} ended by itself, with {code}"
                self._history.note(Trouble(f"trouble: {what}"))


def _cut_tail(partition_dir: Path, count: int) -> None:
    segments = sorted(partition_dir.glob("*.log"))
    if segments:
        os.truncate(segments[-1], max(0, segments[-1].stat().st_size - count))
