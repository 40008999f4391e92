"""What is done to a cluster in a run, and which script a seed stands for: seed, size of the cluster
and kinds decide alone. Pure.

A script is some scenes. In a scene one to three things go wrong; after some scenes all replicas
come into sync, after others the next begins where this one left. What was never promised is not
asked for: a disk loses what it had synced only where others have it, so only after all replicas
were in sync.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from tests.campaigns import script
from tests.campaigns.script import Author

# An action's words, and what they are.
ACTIONS: Final = {
    "kill": ("BROKER",),
    "stop": ("BROKER",),  # SIGTERM
    "start": ("BROKER",),
    "freeze": ("BROKER",),
    "thaw": ("BROKER",),
    "lose-power": ("BROKER",),  # killed, and what was not synced may be gone
    "lose-power-everywhere": (),  # all at the same moment
    "kill-everywhere": (),
    "start-everywhere": (),
    "wipe": ("BROKER",),  # killed, and its partitions' directories removed
    "cut-tail": ("BROKER", "BYTES"),  # killed, and so many bytes gone off each partition
    "cut": ("BROKER", "BROKER"),  # neither reaches the other
    "cut-one-way": ("BROKER", "BROKER"),  # the first does not reach the second
    "reset": ("BROKER", "BROKER"),  # connections break, and are refused
    "slow": ("BROKER", "BROKER", "SECONDS"),
    "cut-clients": ("BROKER",),
    "cut-map": ("BROKER",),  # from ZooKeeper
    "reset-map": ("BROKER",),
    "mend": (),  # all links
    "kill-zookeeper": (),  # all of them
    "start-zookeeper": (),  # all that are not there
    "freeze-zookeeper": (),  # all of them
    "thaw-zookeeper": (),  # all of them
    "kill-leading-zookeeper": (),  # of several, the one that leads them
    "kill-following-zookeeper": (),
    "freeze-leading-zookeeper": (),
    "freeze-following-zookeeper": (),
    "fail-syncs": ("BROKER",),  # EIO; for good, until the broker starts again
    "slow-syncs": ("BROKER", "SECONDS"),
    "heal-disk": ("BROKER",),
    "pause": ("SECONDS",),
    "settle": (),  # until all replicas are in sync
    "until-deposed": ("BROKER",),  # until it leads nothing any more, by the map
}
# What can go wrong before a broker is back that it must be started for.
ENDS: Final = frozenset({"kill", "stop", "lose-power", "wipe", "cut-tail"})

KINDS: Final = ("processes", "links", "zookeeper", "disks")
SCENES: Final = 4
OF_MAP: Final = ("kill-zookeeper", "freeze-zookeeper", "cut-map", "cut-map", "reset-map")
# While one of three is away, the others go on.
_OF_ENSEMBLE: Final = (
    *("kill-leading-zookeeper", "kill-leading-zookeeper", "kill-following-zookeeper"),
    *("freeze-leading-zookeeper", "freeze-leading-zookeeper", "freeze-following-zookeeper"),
)


class Script(script.Script, frozen=True):
    brokers: int = 3
    factor: int = 3
    in_sync: int = 2  # min.insync.replicas
    zookeepers: int = 1
    session: int = 4  # seconds

    def head(self) -> list[str]:
        shape = f"cluster brokers={self.brokers} factor={self.factor} in-sync={self.in_sync}"
        return [f"{shape} zookeepers={self.zookeepers} session={self.session}"]

    @classmethod
    def read(cls, words: Sequence[str]) -> dict[str, Any] | None:
        if words[0] != "cluster":
            return super().read(words)
        said = (word.partition("=") for word in words[1:])
        return {name.replace("-", "_"): int(value) for name, _, value in said}

    def replicas(self, partitions: int) -> list[list[int]]:
        """Of each partition, another one first for each."""
        ids = range(self.brokers)
        return [
            [1 + (each + place) % len(ids) for place in range(self.factor)]
            for each in range(partitions)
        ]


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
    author.add("pause", "1.5")
    for _ in range(scenes):
        author.scene()
    return Script(seed, tuple(author.actions), brokers, factor, in_sync, zookeepers)


class _Author(Author):
    # Sometimes longer than a replica may lag.
    longest = (0.3, 1.5, 4.0, 4.0, 9.0, 16.0)
    steps_of_scene = (1, 2, 2, 3)

    def __init__(
        self,
        chance: random.Random,
        brokers: int,
        factor: int,
        kinds: Sequence[str],
        zookeepers: int,
    ) -> None:
        super().__init__(chance)
        self._of_map = [*OF_MAP, *(_OF_ENSEMBLE if zookeepers > 1 else ())]
        self._ids = list(range(1, brokers + 1))
        self._factor = factor
        self._touched: set[int] = set()
        if "processes" in kinds:
            self.steps += [self._process] * 6
        if "links" in kinds and brokers > 1:
            self.steps += [self._link] * 4
        if "zookeeper" in kinds:
            self.steps += [self._zookeeper] * 3
        if "disks" in kinds:
            self.steps += [self._disk] * 3

    def scene(self) -> None:
        self._touched = set()
        if self.chance.random() < 0.25:
            self.mending = []
            self._everywhere()
            self.mend_all()
        else:
            super().scene()
        if self.chance.random() < 0.5:
            self.add("settle")

    def _broker(self) -> int | None:
        """One to which nothing has happened in this scene."""
        free = [each for each in self._ids if each not in self._touched]
        if not free:
            return None
        chosen = self.chance.choice(free)
        self._touched.add(chosen)
        return chosen

    def _everywhere(self) -> None:
        self.add(self.chance.choice(["kill-everywhere", "lose-power-everywhere"]))
        self.pause()
        if self.chance.random() < 0.5:
            self.add("start-everywhere")
        else:
            for broker in self.chance.sample(self._ids, len(self._ids)):
                self.mend(f"start {broker}")

    def _process(self) -> None:
        broker = self._broker()
        if broker is not None:
            verb = self.chance.choice(["kill", "kill", "freeze", "freeze", "stop"])
            self.add(verb, broker)
            self.mend(f"{'thaw' if verb == 'freeze' else 'start'} {broker}")

    def _link(self) -> None:
        one, other = self.chance.sample(self._ids, 2)
        verb = self.chance.choice(["cut", "cut", "cut-one-way", "reset", "slow", "cut-clients"])
        if verb == "cut-clients":
            self.add(verb, one)
        else:
            seconds = [self.chance.choice(["0.05", "0.3", "2"])] if verb == "slow" else []
            self.add(verb, one, other, *seconds)
        self.mend("mend")

    def _zookeeper(self) -> None:
        verb = self.chance.choice(self._of_map)
        if verb.endswith("-zookeeper"):
            self.add(verb)
            self.mend("start-zookeeper" if verb.startswith("kill-") else "thaw-zookeeper")
        else:
            self.add(verb, self.chance.choice(self._ids))
            self.mend("mend")

    def _disk(self) -> None:
        losing = ["lose-power", "lose-power"]
        losing += ["wipe", "cut-tail"] if self._factor > 1 else []
        verb = self.chance.choice([*losing, "fail-syncs", "slow-syncs", "slow-syncs"])
        if verb in {"wipe", "cut-tail"} and not self._touched and not self.mending:
            self.add("settle")
        elif verb in {"wipe", "cut-tail"}:
            verb = "lose-power"
        broker = self._broker()
        if broker is None:
            return
        if verb == "fail-syncs":
            self.add(verb, broker)
            self.mend(f"kill {broker}", f"heal-disk {broker}", f"start {broker}")
        elif verb == "slow-syncs":
            self.add(verb, broker, self.chance.choice(["0.2", "1", "6"]))
            self.mend(f"heal-disk {broker}")
        else:
            self.add(verb, broker, *(["3000"] if verb == "cut-tail" else []))
            self.mend(f"start {broker}")
