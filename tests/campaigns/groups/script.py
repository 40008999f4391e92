"""What is done to groups in a run: what concerns processes and ZooKeeper of a cluster, and members,
coordinators and the topic. Seed, groups and scenes decide alone which script it is. Pure.

    begin raw-1
    begin raw-2
    kill-coordinator raw
    pause 2.5
    kill-member raw-1
    start-everywhere

A member is called by its group and a number; the groups that begin are those of the run. At the
beginning two members of each group begin.
"""

import random
from collections.abc import Sequence
from typing import Final

from tests.campaigns.cluster import script
from tests.campaigns.cluster.script import OF_MAP, Script
from tests.campaigns.script import Action, Author

GROUPS: Final = {
    "raw": "raw",
    "second": "raw",
    "eager": "librdkafka",
    "cooperative": "librdkafka",
    "paper": "paper",
}
"""And by what kind of member they are formed."""
PAPER: Final = "paper"

_OF_BROKERS: Final = (
    *("kill", "stop", "start", "freeze", "thaw", "kill-everywhere", "start-everywhere"),
    *("cut-map", "reset-map", "mend", "pause"),
    *("kill-zookeeper", "start-zookeeper", "freeze-zookeeper", "thaw-zookeeper"),
)
ACTIONS: Final = {
    **{each: script.ACTIONS[each] for each in _OF_BROKERS},
    "begin": ("MEMBER",),
    "leave": ("MEMBER",),  # SIGTERM; nobody waits for it
    "kill-member": ("MEMBER",),
    "freeze-member": ("MEMBER",),
    "thaw-member": ("MEMBER",),
    "kill-coordinator": ("GROUP",),  # whoever is it now
    "stop-coordinator": ("GROUP",),
    "freeze-coordinator": ("GROUP",),
    "thaw-all": (),  # brokers that stand still
    "grow": (),  # the topic gets one more partition; nobody waits for it
}

SCENES: Final = 3
_BROKERS: Final = (1, 2, 3)
_AT_ONCE: Final = 3  # groups, where they are not chosen
_MEMBERS: Final = 3  # of a group, at most


def group_of(member: str) -> str:
    return member.rpartition("-")[0]


def groups_of(actions: Sequence[Action]) -> tuple[str, ...]:
    """That have members at some time, of those that hear of a coordinator or not."""
    begun = (group_of(each.words[0]) for each in actions if each.verb == "begin")
    return tuple(dict.fromkeys(begun))


def script_of(seed: int, *, groups: Sequence[str] = (), scenes: int = SCENES) -> Script:
    chance = random.Random(f"groups {seed} {' '.join(groups)}")
    chosen = list(groups)
    if not chosen:
        others = [each for each in GROUPS if each != "raw"]
        chosen = ["raw", *chance.sample(others, _AT_ONCE - 1)]
    author = _Author(chance, chosen)
    for group in chosen:
        author.add("begin", f"{group}-1")
        author.add("begin", f"{group}-2")
    author.add("pause", "3")
    for _ in range(scenes):
        author.scene()
    return Script(seed, tuple(author.actions))


class _Author(Author):
    def __init__(self, chance: random.Random, groups: Sequence[str]) -> None:
        super().__init__(chance)
        self._groups = list(groups)
        self.steps += [*[self._member] * 6, *[self._coordinator] * 4, *[self._broker] * 2]
        self.steps += [*[self._map] * 3, self._everywhere, lambda: self.add("grow")]

    def _member(self) -> None:
        verb = self.chance.choice(["begin", "begin", "leave", "kill-member", "freeze-member"])
        name = f"{self.chance.choice(self._groups)}-{self.chance.randint(1, _MEMBERS)}"
        self.add(verb, name)
        if verb != "begin":
            self.mend(f"{'thaw-member' if verb == 'freeze-member' else 'begin'} {name}")

    def _coordinator(self) -> None:
        verb = self.chance.choice(["kill", "kill", "freeze", "freeze", "stop"])
        self.add(f"{verb}-coordinator", self.chance.choice(self._groups))
        self.mend("thaw-all" if verb == "freeze" else "start-everywhere")

    def _broker(self) -> None:
        broker, verb = self.chance.choice(_BROKERS), self.chance.choice(["kill", "freeze", "stop"])
        self.add(verb, broker)
        self.mend(f"{'thaw' if verb == 'freeze' else 'start'} {broker}")

    def _map(self) -> None:
        verb = self.chance.choice(OF_MAP)
        if verb.endswith("-zookeeper"):
            self.add(verb)
            self.mend("start-zookeeper" if verb.startswith("kill") else "thaw-zookeeper")
        else:
            self.add(verb, self.chance.choice(_BROKERS))
            self.mend("mend")

    def _everywhere(self) -> None:
        self.add("kill-everywhere")
        self.mend("start-everywhere")
