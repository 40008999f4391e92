"""Does to two clusters and the mirrors between them what a script says, and heals everything at the
end. An action that makes no sense where it stands does nothing.
"""

import contextlib
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.broker_cluster import BrokerCluster
from harness.server_process import ServerFailed
from harness.two_clusters import TwoClusters
from harness.waiting import wait_until
from tests.cluster_history import nemesis
from tests.cluster_history.history import Done, History, Trouble
from tests.cluster_history.script import Action, Script
from tests.mirror_history.commands import Commands
from tests.mirror_history.gaps import Gaps
from tests.mirror_history.script import SIDES
from tests.system.faults import Faults

STOPS: Final = 60.0
HEALS: Final = 240.0
_FILLER: Final = "filler"


class OfCluster(nemesis.Nemesis):
    """What is done to one of the two, an action at a time. A broker that gives up while it starts,
    as one to which ZooKeeper does not answer in time, is started again, as systemd does it."""

    def begin(self) -> None:
        """Before the first action."""
        self._starting: set[int] = set()

    def do(self, action: Action, chance: random.Random) -> None:
        self._act(action, chance)
        self.look()

    def look(self) -> None:
        self._look_who_ended()

    def all_ready(self) -> bool:
        """Whether all brokers are; who gave up is started again."""
        self.look()
        return all(broker.ready() for broker in self._cluster.brokers.values())

    def _start(self, broker: int) -> None:
        super()._start(broker)
        self._starting.add(broker)

    def _look_who_ended(self) -> None:
        for broker, code in self._cluster.ended_by_itself().items():
            if broker in self._starting:
                self._cluster.spawn(broker)
            elif broker not in self._excused and not self._map_in_trouble:
                what = f"broker {broker} ended by itself, with {code}"
                self._history.note(Trouble(f"trouble: {what}"))
        ready = {each for each in self._starting if self._cluster.brokers[each].ready()}
        self._starting -= ready


class Nemesis:
    def __init__(  # noqa: PLR0917  each is another part
        self,
        clusters: TwoClusters,
        of_clusters: Mapping[str, OfCluster],
        faults: Mapping[str, Faults],
        disks: Mapping[int, Path],
        gaps: Gaps,
        history: History,
        script: Script,
        topics: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """`faults`: by names as `source-1`. `disks`: small ones, of the target's brokers.
        `topics`: of each side, the one whose leaders are meant."""
        self._clusters, self._of, self._faults = clusters, of_clusters, faults
        self._disks, self._gaps = disks, gaps
        self._history, self._script, self._say = history, script, say
        self._topics = topics
        self._commands = Commands(clusters, topics["target"], history)
        for each in self._of.values():
            each.begin()

    def play(self) -> None:
        for number, action in enumerate(self._script.actions):
            self._say(str(action))
            self._act(action, random.Random(f"{self._script.seed} {number} {action}"))
            self._history.note(Done(str(action)))
            self._look_who_ended()

    def heal(self) -> None:
        """Nothing is wrong any more; who was down is started, and all mirrors run."""
        self._look_who_ended()
        for broker in self._disks:
            self._free(broker)
        for each in self._of.values():
            each.bring_back()
        self._clusters.mend_links()
        for faults in self._faults.values():
            faults.no_more()
        for number in self._clusters.mirrors:
            self._clusters.thaw(number)
            self._clusters.begin(number)
        wait_until(
            lambda: all(each.all_ready() for each in self._of.values()),
            within=HEALS,
            what="all brokers are ready",
            every=0.5,
        )
        if late := self._commands.undo():
            self._history.note(Trouble(f"stuck: {late}"))
        self._history.note(Done("everything is healed"))

    def _act(self, action: Action, chance: random.Random) -> None:
        clusters, words = self._clusters, action.words
        side, _, verb = action.verb.partition("-")
        if side in SIDES:
            self._to_cluster(side, verb, words, chance)
            return
        number = int(words[0]) if words and words[0].isdigit() else 0
        match action.verb, words:
            case "pause", [seconds]:
                self._pause(float(seconds))
            case "begin-mirror", _:
                clusters.begin(number)
            case "stop-mirror", _:
                self._stop(number)
            case "kill-mirror", _:
                clusters.kill(number)
            case "freeze-mirror", _:
                clusters.freeze(number)
            case "thaw-mirror", _:
                clusters.thaw(number)
            case "cut-mirror", [_, side]:
                clusters.cut(number, self._cluster(side))
            case "slow-mirror", [_, side, seconds]:
                clusters.slow(number, self._cluster(side), float(seconds))
            case "cut-mirror-map", _:
                clusters.cut_map(number)
            case "mend-mirrors", _:
                clusters.mend_links()
            case "mirror-clock", [seconds]:
                self._move_clocks("mirror", float(seconds))
            case "fill-disk", _:
                self._fill(number)
            case "free-disk", _:
                self._free(number)
                self._to_cluster("target", "kill", words, chance)
                self._to_cluster("target", "start", words, chance)
            case "pause-copy", _:
                self._commands.paused = True
                self._commands.tell("pause")
            case "resume-copy", _:
                self._commands.tell("resume")
            case "open-copy", _:
                self._commands.opened = True
                self._commands.tell("promote", "--without-source")
                self._commands.write(number)
            case "close-copy", _:
                self._commands.tell("demote", "--cut", "--yes")
            case ("overtake" | "make-anew" | "lose-tail") as kind, _:
                self._make_gap(kind, chance)
            case _:
                raise AssertionError(f"nobody knows how to {action}")

    def _to_cluster(
        self, side: str, verb: str, words: tuple[str, ...], chance: random.Random
    ) -> None:
        cluster = self._cluster(side)
        if verb == "clock":
            self._move_clocks(side, float(words[0]))
        elif verb == "thaw-all":
            for broker in cluster.ids:
                cluster.thaw(broker)
        elif verb.endswith("-leader"):
            broker = cluster.leader(self._topics[side], int(words[0]))
            if broker in cluster.ids:
                ends = Action(verb.removesuffix("-leader"), (str(broker),))
                self._of[side].do(ends, chance)
        else:
            self._of[side].do(Action(verb, words), chance)

    def _cluster(self, side: str) -> BrokerCluster:
        return self._clusters.source if side == "source" else self._clusters.target

    def _move_clocks(self, role: str, seconds: float) -> None:
        for name, faults in self._faults.items():
            if name.startswith(f"{role}-"):
                faults.move_clock(seconds)

    def _make_gap(self, kind: str, chance: random.Random) -> None:
        self.heal()
        try:
            self._gaps.make(kind, chance)
        except TimeoutError as late:
            self._history.note(Trouble(f"stuck: before or while a gap was made ({kind}): {late}"))

    # Disks

    def _fill(self, broker: int) -> None:
        """Not a byte is free any more; nothing, where disks cannot be made."""
        disk = self._disks.get(broker)
        if disk is None:
            return
        with (disk / _FILLER).open("ab", buffering=0) as filler:
            for piece in (bytes(1 << 20), bytes(4096)):
                with contextlib.suppress(OSError):  # no room for another one
                    while True:
                        filler.write(piece)

    def _free(self, broker: int) -> None:
        disk = self._disks.get(broker)
        if disk is not None:
            (disk / _FILLER).unlink(missing_ok=True)

    # Processes

    def _stop(self, number: int) -> None:
        if not self._clusters.alive(number):
            return
        try:
            code = self._clusters.stop(number, within=STOPS)
        except ServerFailed:
            what = f"mirror {number} did not stop within {STOPS:g} s"
            self._history.note(Trouble(f"trouble: {what}"))
        else:
            # It may just have been started: nobody hears a signal before it listens for one.
            if code not in {0, -signal.SIGTERM}:
                self._history.note(Trouble(f"trouble: mirror {number} stopped with {code}"))

    def stop_all(self) -> None:
        for number in self._clusters.mirrors:
            self._stop(number)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            self._look_who_ended()

    def _look_who_ended(self) -> None:
        for number, code in self._clusters.ended_by_itself().items():
            what = f"mirror {number} ended by itself, with {code}"
            self._history.note(Trouble(f"trouble: {what}"))
        for each in self._of.values():
            each.look()
