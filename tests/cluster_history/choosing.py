"""Which script a seed stands for. Pure: seed, size of the cluster and kinds decide alone.

A script is some scenes. In a scene one to three things go wrong, one after the other and at the
same time, and are mended in any order; after some scenes all replicas come into sync, after others
the next begins where this one left. What was never promised is not asked for: a disk loses what it
had synced only where others have it, so only after all replicas were in sync.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.cluster_history.script import Action, Script

KINDS: Final = ("processes", "links", "zookeeper", "disks")
SCENES: Final = 4
_OF_MAP: Final = ("cut-map", "cut-map", "reset-map", "kill-zookeeper", "freeze-zookeeper")
# While one of three is away, the others go on.
_OF_ENSEMBLE: Final = (
    *("kill-leading-zookeeper", "kill-leading-zookeeper", "kill-following-zookeeper"),
    *("freeze-leading-zookeeper", "freeze-leading-zookeeper", "freeze-following-zookeeper"),
)


def script_of(
    seed: int,
    *,
    brokers: int = 3,
    factor: int = 3,
    kinds: Sequence[str] = (),
    scenes: int = SCENES,
    zookeepers: int = 1,
) -> Script:
    """`kinds`: the faults that may happen, all of them without it."""
    chosen = tuple(kinds) or KINDS
    several = f" {zookeepers} zookeepers" if zookeepers > 1 else ""
    chance = random.Random(f"seed {seed} {brokers} {factor} {' '.join(chosen)}{several}")
    in_sync = min(factor, chance.choice([1, 2, 2, 2]))
    author = _Author(chance, brokers, factor, chosen, zookeepers)
    actions = tuple(author.actions(scenes))
    return Script(seed, brokers, factor, in_sync, actions, zookeepers)


class _Author:
    def __init__(
        self,
        chance: random.Random,
        brokers: int,
        factor: int,
        kinds: Sequence[str],
        zookeepers: int,
    ) -> None:
        self._chance = chance
        self._of_map = [*_OF_MAP, *(_OF_ENSEMBLE if zookeepers > 1 else ())]
        self._ids = range(1, brokers + 1)
        self._factor = factor
        self._actions: list[Action] = []
        self._mending: list[list[Action]] = []
        self._touched: set[int] = set()
        self._steps: list[Callable[[], None]] = []
        if "processes" in kinds:
            self._steps += [self._process] * 6
        if "links" in kinds and brokers > 1:
            self._steps += [self._link] * 4
        if "zookeeper" in kinds:
            self._steps += [self._zookeeper] * 3
        if "disks" in kinds:
            self._steps += [self._disk] * 3

    def actions(self, scenes: int) -> list[Action]:
        self._add("pause", "1.5")
        for _ in range(scenes):
            self._scene()
        return self._actions

    def _scene(self) -> None:
        self._mending, self._touched = [], set()
        if self._chance.random() < 0.25:
            self._everywhere()
        else:
            for _ in range(self._chance.choice([1, 2, 2, 3])):
                self._chance.choice(self._steps)()
                self._pause()
        self._chance.shuffle(self._mending)
        for mends in self._mending:
            self._actions += mends
            self._pause()
        if self._chance.random() < 0.5:
            self._add("settle")

    def _add(self, verb: str, *words: object) -> None:
        self._actions.append(Action(verb, tuple(map(str, words))))

    def _mend(self, *lines: str) -> None:
        self._mending.append([Action(line.split()[0], tuple(line.split()[1:])) for line in lines])

    def _pause(self) -> None:
        """Mostly shorter than a session, sometimes longer than that and than a replica may lag."""
        longest = self._chance.choice([0.3, 1.5, 4.0, 4.0, 9.0, 16.0])
        self._add("pause", f"{self._chance.uniform(0.05, longest):.2f}")

    def _broker(self) -> int | None:
        """One to which nothing has happened in this scene."""
        free = [each for each in self._ids if each not in self._touched]
        if not free:
            return None
        chosen = self._chance.choice(free)
        self._touched.add(chosen)
        return chosen

    def _everywhere(self) -> None:
        self._add(self._chance.choice(["kill-everywhere", "lose-power-everywhere"]))
        self._pause()
        if self._chance.random() < 0.5:
            self._add("start-everywhere")
        else:
            for broker in self._chance.sample(list(self._ids), len(self._ids)):
                self._mending.append([Action("start", (str(broker),))])

    def _process(self) -> None:
        broker = self._broker()
        if broker is None:
            return
        verb = self._chance.choice(["kill", "kill", "freeze", "freeze", "stop"])
        self._add(verb, broker)
        self._mend(f"{'thaw' if verb == 'freeze' else 'start'} {broker}")

    def _link(self) -> None:
        one, other = self._chance.sample(list(self._ids), 2)
        verb = self._chance.choice(["cut", "cut", "cut-one-way", "reset", "slow", "cut-clients"])
        if verb == "cut-clients":
            self._add(verb, one)
        elif verb == "slow":
            self._add(verb, one, other, self._chance.choice(["0.05", "0.3", "2"]))
        else:
            self._add(verb, one, other)
        self._mend("mend")

    def _zookeeper(self) -> None:
        verb = self._chance.choice(self._of_map)
        if verb.startswith("kill-"):
            self._add(verb)
            self._mend("start-zookeeper")
        elif verb.startswith("freeze-"):
            self._add(verb)
            self._mend("thaw-zookeeper")
        else:
            self._add(verb, self._chance.choice(list(self._ids)))
            self._mend("mend")

    def _disk(self) -> None:
        losing = ["lose-power", "lose-power"]
        losing += ["wipe", "cut-tail"] if self._factor > 1 else []
        verb = self._chance.choice([*losing, "fail-syncs", "slow-syncs", "slow-syncs"])
        if verb in {"wipe", "cut-tail"} and not self._touched and not self._mending:
            self._add("settle")
        elif verb in {"wipe", "cut-tail"}:
            verb = "lose-power"
        broker = self._broker()
        if broker is None:
            return
        if verb == "fail-syncs":
            self._add(verb, broker)
            self._mend(f"kill {broker}", f"heal-disk {broker}", f"start {broker}")
        elif verb == "slow-syncs":
            self._add(verb, broker, self._chance.choice(["0.2", "1", "6"]))
            self._mend(f"heal-disk {broker}")
        else:
            self._add(verb, broker, *(["3000"] if verb == "cut-tail" else []))
            self._mend(f"start {broker}")
