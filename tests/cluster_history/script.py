"""What is done to a cluster in a run, as lines that a person can read, and that are the run. Pure.

    seed 7
    cluster brokers=3 factor=3 in-sync=2 zookeepers=1 session=4
    kill 1
    pause 2.5
    start 1
    settle

A script that went wrong can be shortened by taking lines away, kept in a file, and run again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace


class BadScript(Exception):
    """A line that is no action; says which."""


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


class Action(msgspec.Struct, frozen=True):
    verb: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.verb, *self.words))


class Script(msgspec.Struct, frozen=True):
    seed: int
    brokers: int
    factor: int
    in_sync: int  # min.insync.replicas
    actions: tuple[Action, ...]
    zookeepers: int = 1
    session: int = 4  # seconds

    def __str__(self) -> str:
        shape = f"cluster brokers={self.brokers} factor={self.factor} in-sync={self.in_sync}"
        shape += f" zookeepers={self.zookeepers} session={self.session}"
        return "\n".join([f"seed {self.seed}", shape, *map(str, self.actions)]) + "\n"

    def with_actions(self, actions: Sequence[Action]) -> "Script":
        return replace(self, actions=tuple(actions))


def parse(text: str, known: Mapping[str, tuple[str, ...]] = ACTIONS) -> Script:
    """`known`: the actions that there are."""
    seed, shape = 0, {"brokers": 3, "factor": 3, "in-sync": 2, "zookeepers": 1, "session": 4}
    actions = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "seed":
            seed = int(words[1])
        elif words[0] == "cluster":
            shape |= {name: int(value) for name, _, value in (w.partition("=") for w in words[1:])}
        else:
            actions.append(_action(words, number, known))
    return Script(
        seed,
        shape["brokers"],
        shape["factor"],
        shape["in-sync"],
        tuple(actions),
        zookeepers=shape["zookeepers"],
        session=shape["session"],
    )


def _action(words: Sequence[str], number: int, known: Mapping[str, tuple[str, ...]]) -> Action:
    verb, *rest = words
    if verb not in known or len(rest) != len(known[verb]):
        listed = ", ".join(" ".join((each, *wanted)) for each, wanted in sorted(known.items()))
        raise BadScript(f"line {number}: {' '.join(words)!r} is no action; there are: {listed}")
    return Action(verb, tuple(rest))
