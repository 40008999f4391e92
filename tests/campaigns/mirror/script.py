"""What is done to two clusters and the mirrors between them in a run: what is done to a cluster
comes with `source-` or `target-` before it. Seed, kinds and the number of scenes decide alone which
script it is. Pure.

    begin-mirror 1
    target-kill 2
    cut-mirror 1 source
    pause 2.5
    mend-mirrors
    target-start 2
    overtake

Two mirrors begin, and clocks may be wrong from then on. A scene may end with a gap, each kind of
which comes once at most. With `long`, links are cut for minutes.
"""

import random
from collections.abc import Sequence
from typing import Final

from tests.campaigns.cluster import script
from tests.campaigns.cluster.script import OF_MAP, Script
from tests.campaigns.script import Author

SIDES: Final = ("source", "target")
_OF_CLUSTERS: Final = (
    *("kill", "stop", "start", "freeze", "thaw", "lose-power", "cut", "slow"),
    *("kill-everywhere", "start-everywhere", "lose-power-everywhere"),
    *("cut-map", "reset-map", "mend"),
    *("kill-zookeeper", "start-zookeeper", "freeze-zookeeper", "thaw-zookeeper"),
    *("fail-syncs", "slow-syncs", "heal-disk", "settle"),
)
ACTIONS: Final = {
    **{f"{side}-{each}": script.ACTIONS[each] for side in SIDES for each in _OF_CLUSTERS},
    **{
        f"{side}-{verb}-leader": ("PARTITION",)  # whoever leads it now
        for side in SIDES
        for verb in ("kill", "freeze")
    },
    **{f"{side}-thaw-all": () for side in SIDES},
    **{f"{side}-clock": ("SECONDS",) for side in SIDES},  # of all its brokers, away from true
    "mirror-clock": ("SECONDS",),  # of all mirrors
    "fill-disk": ("BROKER",),  # of the target; not a byte is free
    "free-disk": ("BROKER",),  # and it is started anew
    "begin-mirror": ("MIRROR",),
    "stop-mirror": ("MIRROR",),  # SIGTERM
    "kill-mirror": ("MIRROR",),
    "freeze-mirror": ("MIRROR",),
    "thaw-mirror": ("MIRROR",),
    "cut-mirror": ("MIRROR", "SIDE"),
    "slow-mirror": ("MIRROR", "SIDE", "SECONDS"),
    "cut-mirror-map": ("MIRROR",),
    "mend-mirrors": (),
    "overtake": (),  # the source throws away what was not copied yet
    "make-anew": (),  # a topic of the source is deleted and made again
    "lose-tail": (),  # all brokers of the source lose the end of a log that was copied
    "pause-copy": (),  # by `penstock mirror pause`, and on again
    "resume-copy": (),
    "open-copy": ("PARTITION",),  # promoted, and then something is written to it
    "close-copy": (),  # demoted, and what was written there thrown away
    "pause": script.ACTIONS["pause"],
}
GAPS: Final = ("overtake", "make-anew", "lose-tail")
KINDS: Final = ("mirrors", "clusters", "links", "disks", "clocks", "commands", "gaps")
SCENES: Final = 3
BROKERS: Final = 3
MIRRORS: Final = 3
PARTITIONS: Final = 4
_YEARS: Final = 10 * 365 * 24 * 3600


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
    author = _Author(chance, chosen, brokers, long=long)
    author.add("begin-mirror", 1)
    author.add("begin-mirror", 2)
    author.add("pause", "3")
    for _ in range(scenes):
        author.scene()
    return Script(seed, tuple(author.actions), brokers, brokers, min(2, brokers))


class _Author(Author):
    def __init__(
        self, chance: random.Random, kinds: Sequence[str], brokers: int, *, long: bool
    ) -> None:
        super().__init__(chance)
        self._brokers, self._long = brokers, long
        self._gaps = list(GAPS) if "gaps" in kinds else []
        chance.shuffle(self._gaps)
        clusters = [*[self._broker] * 3, *[self._leader] * 4, self._map, self._everywhere]
        of_kind = {
            "mirrors": [self._mirror] * 7,
            "clusters": clusters,
            "links": [self._link] * 5,
            "disks": [self._disk] * 2,
            "clocks": [self._clock],
            "commands": [self._command] * 2,
        }
        self.steps += [step for kind in kinds for step in of_kind.get(kind, ())]
        self.steps = self.steps or [self.pause]  # gaps alone

    def scene(self) -> None:
        super().scene()
        if self._gaps and self.chance.random() < 0.6:
            self.add(self._gaps.pop())
            self.pause()

    def _one(self) -> int:
        return self.chance.randint(1, MIRRORS)

    def _side(self) -> str:
        return self.chance.choice(SIDES)

    def _mirror(self) -> None:
        verb = self.chance.choice(["begin", "kill", "kill", "freeze", "freeze", "stop"])
        number = self._one()
        self.add(f"{verb}-mirror", number)
        if verb != "begin":
            self.mend(f"{'thaw' if verb == 'freeze' else 'begin'}-mirror {number}")

    def _broker(self) -> None:
        side, broker = self._side(), self.chance.randint(1, self._brokers)
        verb = self.chance.choice(["kill", "kill", "freeze", "stop", "lose-power"])
        self.add(f"{side}-{verb}", broker)
        self.mend(f"{side}-{'thaw' if verb == 'freeze' else 'start'} {broker}")

    def _leader(self) -> None:
        side, verb = self._side(), self.chance.choice(["kill", "kill", "freeze"])
        self.add(f"{side}-{verb}-leader", self.chance.randrange(PARTITIONS))
        self.mend(f"{side}-{'thaw-all' if verb == 'freeze' else 'start-everywhere'}")

    def _everywhere(self) -> None:
        side = self._side()
        self.add(f"{side}-{self.chance.choice(['kill', 'lose-power'])}-everywhere")
        self.mend(f"{side}-start-everywhere")

    def _map(self) -> None:
        side, verb = self._side(), self.chance.choice(OF_MAP)
        if verb.endswith("-zookeeper"):
            self.add(f"{side}-{verb}")
            self.mend(f"{side}-{'start' if verb.startswith('kill') else 'thaw'}-zookeeper")
        else:
            self.add(f"{side}-{verb}", self.chance.randint(1, self._brokers))
            self.mend(f"{side}-mend")

    def _link(self) -> None:
        verb = self.chance.choice(["cut-mirror", "cut-mirror", "slow-mirror", "cut-mirror-map"])
        side = [] if verb == "cut-mirror-map" else [self._side()]
        seconds = [self.chance.choice(["0.05", "0.3"])] if verb == "slow-mirror" else []
        self.add(verb, self._one(), *side, *seconds)
        if self._long:
            self.add("pause", f"{self.chance.uniform(30, 180):.0f}")
        self.mend("mend-mirrors")

    def _disk(self) -> None:
        verb = self.chance.choice(["fill-disk", "fail-syncs", "slow-syncs"])
        side, broker = self._side(), self.chance.randint(1, self._brokers)
        if verb == "fill-disk":
            self.add(verb, broker)
            self.mend(f"free-disk {broker}")
        elif verb == "slow-syncs":
            self.add(f"{side}-{verb}", broker, self.chance.choice(["0.2", "1"]))
            self.mend(f"{side}-heal-disk {broker}")
        else:
            self.add(f"{side}-{verb}", broker)
            self.mend(*(f"{side}-{each} {broker}" for each in ("kill", "heal-disk", "start")))

    def _clock(self) -> None:
        who = self.chance.choice(["source-clock", "target-clock", "mirror-clock"])
        self.add(who, self.chance.choice([-_YEARS, -3600, 3600, _YEARS]))
        if self.chance.random() < 0.5:
            self.mend(f"{who} 0")

    def _command(self) -> None:
        if self.chance.random() < 0.3:
            self.add("pause-copy")
            self.mend("resume-copy")
        else:
            self.add("open-copy", self.chance.randrange(PARTITIONS))
            self.mend("close-copy")
