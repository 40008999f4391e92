"""What is done in a run, as lines that a person can read, and that are the run. Pure.

    seed 7
    cluster brokers=3 factor=3 in-sync=2 zookeepers=1 session=4
    kill 1
    pause 2.5
    start 1

Each campaign has its own actions, and lines of its own at the beginning. A script that went wrong
can be shortened by taking lines away, kept in a file, and run again; an action that makes no sense
where it stands does nothing.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

import msgspec
from msgspec.structs import replace

SHARED: Final = "=="
Actions = Mapping[str, tuple[str, ...]]
"""The words that follow each verb. Verbs of shared actions begin with `== `."""


class BadScript(Exception):
    """A line that is no action; says which."""


class Action(msgspec.Struct, frozen=True):
    """`write a 20`; of all runs of a batch: `== kill-broker`."""

    verb: str
    words: tuple[str, ...] = ()
    shared: bool = False

    def __str__(self) -> str:
        return " ".join((*((SHARED,) if self.shared else ()), self.verb, *self.words))

    @classmethod
    def of(cls, line: str) -> "Action":
        verb, *words = line.split()
        return cls(verb, tuple(words))


class Script(msgspec.Struct, frozen=True):
    """A campaign's own has further fields, which `head` writes and `read` reads."""

    seed: int
    actions: tuple[Action, ...] = ()

    def head(self) -> list[str]:
        return []

    @classmethod
    def read(cls, words: Sequence[str]) -> dict[str, Any] | None:
        """The fields that a line says; None if it is an action."""
        return {"seed": int(words[1])} if words[0] == "seed" else None

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}", *self.head(), *map(str, self.actions)]) + "\n"

    def with_actions(self, actions: Sequence[Action]) -> Self:
        return replace(self, actions=tuple(actions))


S = TypeVar("S", bound=Script)


def parse(text: str, script: type[S], known: Actions) -> S:
    """`known`: the actions that there are."""
    fields: dict[str, Any] = {"seed": 0}
    actions = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.partition("#")[0].split()
        if words:
            said = script.read(words)
            if said is None:
                actions.append(_action(words, number, known))
            else:
                fields |= said
    return script(**fields, actions=tuple(actions))


def _action(words: Sequence[str], number: int, known: Actions) -> Action:
    shared = words[0] == SHARED
    verb, *rest = words[1:] if shared else words
    wanted = known.get(f"{SHARED} {verb}" if shared else verb)
    if wanted is None or len(rest) != len(wanted):
        listed = ", ".join(" ".join((each, *follow)) for each, follow in sorted(known.items()))
        raise BadScript(f"line {number}: {' '.join(words)!r} is no action; there are: {listed}")
    return Action(verb, tuple(rest), shared)


class Author:
    """Draws the actions of a script: scenes, in which some things go wrong, one after the other and
    at the same time, and are mended in any order. A campaign adds its steps to `steps`."""

    longest: Sequence[float] = (0.3, 1.5, 4.0, 4.0, 9.0)
    """Of pauses: mostly shorter than a session, sometimes longer."""
    steps_of_scene: Sequence[int] = (2, 3, 3, 4)

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.actions: list[Action] = []
        self.mending: list[list[Action]] = []
        self.steps: list[Callable[[], None]] = []

    def add(self, verb: str, *words: object) -> None:
        self.actions.append(Action(verb, tuple(map(str, words))))

    def mend(self, *lines: str) -> None:
        """These happen together, at the end of the scene."""
        self.mending.append([Action.of(line) for line in lines])

    def pause(self) -> None:
        longest = self.chance.choice(self.longest)
        self.add("pause", f"{self.chance.uniform(0.05, longest):.2f}")

    def scene(self) -> None:
        self.mending = []
        for _ in range(self.chance.choice(self.steps_of_scene)):
            self.chance.choice(self.steps)()
            self.pause()
        self.mend_all()

    def mend_all(self) -> None:
        self.chance.shuffle(self.mending)
        for mends in self.mending:
            self.actions += mends
            self.pause()
