"""What happens to a pipeline, and which script a seed stands for. The seed decides alone. Pure.

    site mirrored seconds=600 load-every=120
    kill broker-dc1-2
    kill agent-web-1
    pause 4.2
    mend
    whole

Everybody takes turns: each has had its trouble before any has its next. What happens to whom beside
it, for how long, and how soon the next one may follow, is the seed's choice. In a soak troubles
come at a pace, and from before the middle on one broker is not ended: it lives to the end.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from tests.campaigns import script
from tests.campaigns.pipeline.shapes import SHAPES, victims
from tests.campaigns.script import Action, Author

WHO: Final = ("WHO",)
ACTIONS: Final = {
    "kill": WHO,  # SIGKILL; of the loader, the load that is under way
    "stop": WHO,  # SIGTERM
    "freeze": WHO,  # SIGSTOP
    "cut": WHO,  # from the brokers that it writes to; a mirror's are those of the target
    "cut-source": WHO,
    "cut-map": WHO,  # from ZooKeeper
    "freeze-writer": ("CLUSTER",),  # of two registries the one that writes, until the other does
    "pause": ("SECONDS",),
    "mend": (),  # all that was struck comes back
    "whole": (),  # until all is as it should be
}
VERBS: Final = {
    "broker": ("kill", "kill", "kill", "stop", "freeze"),
    "mirror": (*("kill", "kill", "stop", "freeze"), *("cut", "cut-source", "cut-map")),
    "agent": ("kill", "cut"),
    "registry": ("kill", "freeze"),
    "audit": ("kill",),
    "loader": ("kill",),
}
_SHORTEST: Final = 0.5
_LONGEST: Final = 12.0
_USUAL: Final = 4.0  # less than one lasts, with all that comes back after it
_BESIDE: Final = 0.5  # how often something else happens at the same time
_SOON: Final = 0.3  # how often the next one does not wait until all is whole
_WRITER: Final = 0.1
_SPARED_FROM: Final = 0.4


class Script(script.Script, frozen=True):
    site: str = "cluster"
    seconds: int = 0  # of trouble; 0: until all actions are done
    load_every: int = 0  # seconds; 0: only one at the end

    def head(self) -> list[str]:
        return [f"site {self.site} seconds={self.seconds} load-every={self.load_every}"]

    @classmethod
    def read(cls, words: Sequence[str]) -> dict[str, Any] | None:
        if words[0] != "site":
            return super().read(words)
        said = (word.partition("=") for word in words[2:])
        return {"site": words[1], **{name.replace("-", "_"): int(n) for name, _, n in said}}


def script_of(
    seed: int, site: str, *, seconds: int, load_every: int, between: float = 0.0
) -> Script:
    """More than there is time for. `between`: seconds from when all is well again to the next
    trouble, of a soak."""
    author = _Author(random.Random(f"troubles {seed} {site}"), site, between)
    scenes = 1 + int(seconds / (between or _USUAL))
    spared = f"broker-{SHAPES[site].parts[-1].name}-{SHAPES[site].parts[-1].brokers}"
    for number in range(scenes):
        is_over = between and number > _SPARED_FROM * scenes
        author.scene_of(spared if is_over else "")
    return Script(seed, tuple(author.actions), site, seconds, load_every)


class _Author(Author):
    def __init__(self, chance: random.Random, site: str, between: float) -> None:
        super().__init__(chance)
        self._victims, self._between = victims(SHAPES[site]), between
        self._clusters = [each.name for each in SHAPES[site].parts if each.registries > 1]
        self._turns: list[str] = []

    def scene_of(self, spared: str) -> None:
        self._turns = self._turns or self.chance.sample(self._victims, len(self._victims))
        victim = self._turns.pop()
        self._strike(victim, spared)
        others = [each for each in self._victims if kind_of(each) != kind_of(victim)]
        if self.chance.random() < _BESIDE:
            self._strike(self.chance.choice(others), spared)
        if self._clusters and self.chance.random() < _WRITER:
            self.add("freeze-writer", self.chance.choice(self._clusters))
        self.add("pause", f"{self.chance.uniform(_SHORTEST, _LONGEST):.1f}")
        self.add("mend")
        if self._between or self.chance.random() >= _SOON:
            self.add("whole")
        if self._between:
            self.add("pause", f"{self._between:.0f}")

    def _strike(self, victim: str, spared: str) -> None:
        verb = self.chance.choice(VERBS[kind_of(victim)])
        self.actions.append(Action("freeze" if victim == spared else verb, (victim,)))


def kind_of(victim: str) -> str:
    return victim.partition("-")[0]
