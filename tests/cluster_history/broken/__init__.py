"""Brokers that are broken on purpose: each module is a broker's program that leaves out a rule.

A module puts a function of its own in the place of one or two of the product's, in its own process,
and runs `penstock` then. The product has no switch for that. `FLAWS` says of each which rule of
docs/replication.md it leaves out, and by which rules of the judge's it must be caught, with the
script in scripts/ that makes it show. Whole brokers must come through the same script.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.cluster_history.script import Script, parse

SCRIPTS: Final = Path(__file__).parents[1] / "scripts"


class Flaw(msgspec.Struct, frozen=True):
    rule: str  # of docs/replication.md
    left_out: str
    script: str
    breaks: frozenset[str]  # one of them, at least

    @classmethod
    def program(cls, name: str) -> str:
        """The module that is run in penstock's place: beside the one that has the class."""
        return f"{cls.__module__}.{name.replace('-', '_')}"

    def parsed(self) -> Script:
        return parse((SCRIPTS / f"{self.script}.script").read_text())

    def is_caught_by(self, rules: Collection[str]) -> bool:
        return not self.breaks.isdisjoint(rules)


LOST: Final = frozenset({"lost", "moved", "gone", "changed", "disagree"})
FLAWS: Final = {
    "deposed-answers": Flaw(
        rule="R9",
        left_out="a deposed leader answers all who wait that it does not lead",
        script="deposed-by-the-map",
        breaks=LOST,
    ),
    "no-compare-and-set": Flaw(
        rule="R1, R5",
        left_out="who is in sync is what the map says, and not what a leader wishes",
        script="deposed-by-the-map",
        breaks=LOST,
    ),
    "no-truncation": Flaw(
        rule="R8",
        left_out="a follower takes back what lies behind where its history parts from the leader's",
        script="deposed-by-the-map",
        breaks=frozenset({"replicas", "served"}),
    ),
    "fetch-offset-written": Flaw(
        rule="R2",
        left_out="a follower's fetch offset is what it has flushed",
        script="dark-followers",
        breaks=LOST,
    ),
    "hw-without-flush": Flaw(
        rule="R3",
        left_out="of its own log, the leader counts only what it has flushed",
        script="dark-leader",
        breaks=LOST,
    ),
    "too-few-in-sync": Flaw(
        rule="R4",
        left_out="min.insync.replicas is looked at",
        script="one-of-three",
        breaks=frozenset({"few"}),
    ),
    "unclean-leader": Flaw(
        rule="R6",
        left_out="a leader is chosen from those in sync",
        script="last-in-sync",
        breaks=LOST,
    ),
}


def in_place_of(
    owner: object, name: str
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """A function that is called where another one was, which it gets as its first argument."""
    before: Any = getattr(owner, name)

    def put(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            return function(before, *arguments, **named)

        setattr(owner, name, called)
        return function

    return put
