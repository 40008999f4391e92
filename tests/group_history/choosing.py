"""Which script a seed stands for. Pure: seed, groups and scenes decide alone.

At the beginning two members of each group begin. Then there are some scenes: in each, two to four
things go wrong or change, one after the other and at the same time, and are mended in any order.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.cluster_history.script import Action, Script
from tests.group_history.script import GROUPS

SCENES: Final = 3
BROKERS: Final = 3
_AT_ONCE: Final = 3  # groups, where they are not chosen
_MEMBERS: Final = 3  # of a group, at most
_MAP: Final = ("kill-zookeeper", "freeze-zookeeper", "cut-map", "cut-map", "reset-map")


def script_of(seed: int, *, groups: Sequence[str] = (), scenes: int = SCENES) -> Script:
    chance = random.Random(f"groups {seed} {' '.join(groups)}")
    chosen = list(groups)
    if not chosen:
        others = [each for each in GROUPS if each != "raw"]
        chosen = ["raw", *chance.sample(others, _AT_ONCE - 1)]
    actions = tuple(_Author(chance, chosen).actions(scenes))
    return Script(seed, BROKERS, BROKERS, 2, actions)


class _Author:
    def __init__(self, chance: random.Random, groups: Sequence[str]) -> None:
        self._chance, self._groups = chance, groups
        self._actions: list[Action] = []
        self._mending: list[Action] = []
        self._steps: list[Callable[[], None]] = [
            *[self._member] * 6,
            *[self._coordinator] * 4,
            *[self._broker] * 2,
            *[self._map] * 3,
            self._everywhere,
            self._topic,
        ]

    def actions(self, scenes: int) -> list[Action]:
        for group in self._groups:
            self._add("begin", f"{group}-1")
            self._add("begin", f"{group}-2")
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
            self._actions.append(mends)
            self._pause()

    def _add(self, verb: str, *words: object) -> None:
        self._actions.append(Action(verb, tuple(map(str, words))))

    def _mend(self, verb: str, *words: object) -> None:
        self._mending.append(Action(verb, tuple(map(str, words))))

    def _pause(self) -> None:
        """Mostly shorter than a session, sometimes longer."""
        longest = self._chance.choice([0.3, 1.5, 4.0, 4.0, 9.0])
        self._add("pause", f"{self._chance.uniform(0.05, longest):.2f}")

    def _one(self) -> str:
        number = self._chance.randrange(1, _MEMBERS + 1)
        return f"{self._chance.choice(list(self._groups))}-{number}"

    def _member(self) -> None:
        verb = self._chance.choice(["begin", "begin", "leave", "kill-member", "freeze-member"])
        name = self._one()
        self._add(verb, name)
        if verb == "freeze-member":
            self._mend("thaw-member", name)
        elif verb != "begin":
            self._mend("begin", name)

    def _coordinator(self) -> None:
        verb = self._chance.choice(["kill", "kill", "freeze", "freeze", "stop"])
        self._add(f"{verb}-coordinator", self._chance.choice(list(self._groups)))
        self._mend("thaw-brokers" if verb == "freeze" else "start-everywhere")

    def _broker(self) -> None:
        broker = self._chance.randrange(1, BROKERS + 1)
        verb = self._chance.choice(["kill", "freeze", "stop"])
        self._add(verb, broker)
        self._mend("thaw" if verb == "freeze" else "start", broker)

    def _map(self) -> None:
        verb = self._chance.choice(_MAP)
        if verb.endswith("-zookeeper"):
            self._add(verb)
            self._mend("start-zookeeper" if verb.startswith("kill") else "thaw-zookeeper")
        else:
            self._add(verb, self._chance.randrange(1, BROKERS + 1))
            self._mend("mend")

    def _everywhere(self) -> None:
        self._add("kill-everywhere")
        self._mend("start-everywhere")

    def _topic(self) -> None:
        self._add("grow")
