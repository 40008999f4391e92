"""Which script a seed stands for. Pure: seed, kinds and the number of scenes decide alone.

Two mirrors begin, and clocks may be wrong from then on. Then there are some scenes: in each, two to
four things go wrong or change, one after the other and at the same time, and are mended in any
order. A scene may end with a gap, each kind of which comes once at most. With `long`, links are cut
for minutes.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.cluster_history.script import Action, Script
from tests.mirror_history.script import SIDES

KINDS: Final = ("mirrors", "clusters", "links", "disks", "clocks", "commands", "gaps")
SCENES: Final = 3
BROKERS: Final = 3
MIRRORS: Final = 3
PARTITIONS: Final = 4
GAPS: Final = ("overtake", "make-anew", "lose-tail")
_YEARS: Final = 10 * 365 * 24 * 3600
_MAP: Final = ("kill-zookeeper", "freeze-zookeeper", "cut-map", "cut-map", "reset-map")


def script_of(
    seed: int,
    *,
    kinds: Sequence[str] = (),
    scenes: int = SCENES,
    brokers: int = BROKERS,
    long: bool = False,
) -> Script:
    """`kinds`: what may go wrong, all of it without them."""
    chosen = tuple(kinds) or KINDS
    chance = random.Random(f"mirrors {seed} {' '.join(chosen)} {brokers} {long}")
    actions = tuple(_Author(chance, chosen, brokers, long=long).actions(scenes))
    return Script(seed, brokers, brokers, min(2, brokers), actions)


class _Author:
    def __init__(
        self, chance: random.Random, kinds: Sequence[str], brokers: int, *, long: bool
    ) -> None:
        self._chance, self._kinds, self._brokers, self._long = chance, kinds, brokers, long
        self._actions: list[Action] = []
        self._mending: list[list[Action]] = []
        self._gaps = list(GAPS) if "gaps" in kinds else []
        chance.shuffle(self._gaps)
        self._steps: list[Callable[[], None]] = []
        if "mirrors" in kinds:
            self._steps += [self._mirror] * 7
        if "clusters" in kinds:
            self._steps += [*[self._broker] * 3, *[self._leader] * 4, self._map, self._everywhere]
        if "links" in kinds:
            self._steps += [self._link] * 5
        if "disks" in kinds:
            self._steps += [self._disk] * 2
        if "clocks" in kinds:
            self._steps.append(self._clock)
        if "commands" in kinds:
            self._steps += [self._command] * 2
        if not self._steps:  # gaps alone
            self._steps.append(self._pause)

    def actions(self, scenes: int) -> list[Action]:
        self._add("begin-mirror", 1)
        self._add("begin-mirror", 2)
        self._add("pause", "3")
        for _ in range(scenes):
            self._scene()
        return self._actions

    def _scene(self) -> None:
        self._mending = []
        for _ in range(self._chance.choice([2, 3, 3, 4])):
            self._chance.choice(self._steps)()
            self._pause()
        self._chance.shuffle(self._mending)
        for mends in self._mending:
            self._actions += mends
            self._pause()
        if self._gaps and self._chance.random() < 0.6:
            self._add(self._gaps.pop())
            self._pause()

    def _add(self, verb: str, *words: object) -> None:
        self._actions.append(Action(verb, tuple(map(str, words))))

    def _mend(self, verb: str, *words: object) -> None:
        self._mending.append([Action(verb, tuple(map(str, words)))])

    def _pause(self) -> None:
        """Mostly shorter than a session, sometimes longer."""
        longest = self._chance.choice([0.3, 1.5, 4.0, 4.0, 9.0])
        self._add("pause", f"{self._chance.uniform(0.05, longest):.2f}")

    def _one(self) -> int:
        return self._chance.randint(1, MIRRORS)

    def _side(self) -> str:
        return self._chance.choice(SIDES)

    def _mirror(self) -> None:
        verb = self._chance.choice(["begin", "kill", "kill", "freeze", "freeze", "stop"])
        number = self._one()
        self._add(f"{verb}-mirror", number)
        if verb == "freeze":
            self._mend("thaw-mirror", number)
        elif verb != "begin":
            self._mend("begin-mirror", number)

    def _broker(self) -> None:
        side, broker = self._side(), self._chance.randint(1, self._brokers)
        verb = self._chance.choice(["kill", "kill", "freeze", "stop", "lose-power"])
        self._add(f"{side}-{verb}", broker)
        self._mend(f"{side}-{'thaw' if verb == 'freeze' else 'start'}", broker)

    def _leader(self) -> None:
        side, verb = self._side(), self._chance.choice(["kill", "kill", "freeze"])
        self._add(f"{side}-{verb}-leader", self._chance.randrange(PARTITIONS))
        self._mend(f"{side}-{'thaw-all' if verb == 'freeze' else 'start-everywhere'}")

    def _everywhere(self) -> None:
        side = self._side()
        self._add(f"{side}-{self._chance.choice(['kill', 'lose-power'])}-everywhere")
        self._mend(f"{side}-start-everywhere")

    def _map(self) -> None:
        side, verb = self._side(), self._chance.choice(_MAP)
        if verb.endswith("-zookeeper"):
            self._add(f"{side}-{verb}")
            back = "start" if verb.startswith("kill") else "thaw"
            self._mend(f"{side}-{back}-zookeeper")
        else:
            self._add(f"{side}-{verb}", self._chance.randint(1, self._brokers))
            self._mend(f"{side}-mend")

    def _link(self) -> None:
        verb = self._chance.choice(["cut-mirror", "cut-mirror", "slow-mirror", "cut-mirror-map"])
        if verb == "cut-mirror-map":
            self._add(verb, self._one())
        elif verb == "slow-mirror":
            self._add(verb, self._one(), self._side(), self._chance.choice(["0.05", "0.3"]))
        else:
            self._add(verb, self._one(), self._side())
        if self._long:
            self._add("pause", f"{self._chance.uniform(30, 180):.0f}")
        self._mend("mend-mirrors")

    def _disk(self) -> None:
        verb = self._chance.choice(["fill-disk", "fail-syncs", "slow-syncs"])
        broker = self._chance.randint(1, self._brokers)
        if verb == "fill-disk":
            self._add(verb, broker)
            self._mend("free-disk", broker)
            return
        side = self._side()
        if verb == "slow-syncs":
            self._add(f"{side}-{verb}", broker, self._chance.choice(["0.2", "1"]))
            self._mend(f"{side}-heal-disk", broker)
        else:
            self._add(f"{side}-{verb}", broker)
            verbs = ("kill", "heal-disk", "start")
            self._mending.append([Action(f"{side}-{each}", (str(broker),)) for each in verbs])

    def _clock(self) -> None:
        who = self._chance.choice(["source-clock", "target-clock", "mirror-clock"])
        seconds = self._chance.choice([-_YEARS, -3600, 3600, _YEARS])
        self._add(who, seconds)
        if self._chance.random() < 0.5:
            self._mend(who, 0)

    def _command(self) -> None:
        if self._chance.random() < 0.3:
            self._add("pause-copy")
            self._mend("resume-copy")
        else:
            self._add("open-copy", self._chance.randrange(PARTITIONS))
            self._mend("close-copy")
