"""Which script a seed stands for. Pure: the seed decides alone.

Seeds of one group have their shared events in common, so that they can be run side by side.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from tests.witness.script import Action, Script

GROUP: Final = 20
SCENES: Final = 3
KEEPS: Final = {"rename", "create", "date", "switch"}  # what was written
WRONG_CLOCKS: Final = ("-7200", "-60", "+60", "+7200")  # of a load; hours end in between
KINDS: Final = ("agent", "broker", "loader", "audit", "others")


def script_of(
    seed: int, only: Sequence[str] = (), *, cluster: bool = False, kept: bool = False
) -> Script:
    """The script of a seed; `only` names the faults that may happen, all of them without it. Those
    of a cluster are others. With `kept`, the agent's open files outlive it in every run, else in
    every second one."""
    kinds = tuple(only) or KINDS
    name = " ".join([*kinds, "cluster"] if cluster else kinds)
    score = _score(random.Random(f"group {(seed - 1) // GROUP} {name}"), kinds, cluster)
    chance = random.Random(f"seed {seed} {name}")
    patterns = chance.choice(["all", "live"])
    kept = chance.random() < 0.5 or kept
    unclean = cluster and random.Random(f"topic {seed}").random() < 0.5
    return Script(seed, patterns, kept, tuple(_Author(chance, kinds, score).actions()), unclean)


def _score(chance: random.Random, kinds: Sequence[str], cluster: bool) -> list[Action]:
    """The shared events of a group: some scenes, each of which ends as it began."""

    def event(verb: str, *words: str) -> Action:
        return Action(verb, words, shared=True)

    scenes: list[list[Action]] = []
    if "broker" in kinds:
        scenes += [[event("kill-broker"), event("start-broker")]] * 4
        scenes += [[event("freeze-broker"), event("thaw-broker")]] * 2
        scenes += [[event("fill-broker-disk"), event("free-broker-disk")]]
        scenes += [[event("kill-registry"), event("start-registry")]] * 2
        scenes += [[event("freeze-registry"), event("thaw-registry")]]
    if "broker" in kinds and cluster:
        scenes += [[event("kill-broker"), event("wipe-broker"), event("start-broker")]] * 3
        scenes += [[event("kill-brokers"), event("start-brokers")]] * 4
        scenes += [[event("freeze-broker"), event("thaw-broker")]] * 2
        alone = ("kill-others", "kill-broker", "start-others", "start-broker")
        scenes += [[event(each) for each in alone]] * 4
    if "loader" in kinds:
        scenes += [[event("load"), event("mark")]] * 4
        scenes += [[event("load-at", chance.choice(WRONG_CLOCKS)), event("mark")]]
        scenes += [[event("kill-load", f"{chance.uniform(2, 9):.1f}")]] * 2
    if "audit" in kinds:
        scenes += [[event("kill-audit"), event("start-audit")], [event("wipe-audit")]] * 2
        scenes += [[event("freeze-audit"), event("thaw-audit")]]
    chosen = [chance.choice(scenes or [[event("mark")]]) for _ in range(SCENES)]
    return [each for scene in chosen for each in scene]


class _Author:
    def __init__(
        self, chance: random.Random, kinds: Sequence[str], score: Sequence[Action]
    ) -> None:
        self._chance = chance
        self._kinds = kinds
        self._score = score
        self._alive = False
        self._frozen = False
        self._broker_dead = False
        self._all_dead = False
        self._loaded = False
        # A run is about a few labels: what happens happens to the same files.
        self._labels = chance.sample(["a", "b", "c", "s"], chance.choice([1, 2, 2, 3]))
        self._actions: list[Action] = []

    def actions(self) -> list[Action]:
        for label in self._labels:
            if self._chance.random() < 0.5:
                self._write(label)
        self._add("start-agent")
        self._alive = True
        for label in self._labels:
            self._write(label)
        self._add("settle")
        for number in range(len(self._score) + 1):
            for _ in range(self._chance.choice([1, 2, 3])):
                self._step()
            if number < len(self._score):
                self._shared(self._score[number])
        for label in self._labels:
            if self._chance.random() < 0.5:
                self._write(label)
        return self._actions

    def _shared(self, event: Action) -> None:
        self._actions.append(event)
        if event.verb in {"kill-broker", "start-broker"}:
            self._broker_dead = event.verb == "kill-broker"
        if event.verb in {"kill-brokers", "start-brokers"}:
            self._broker_dead = self._all_dead = event.verb == "kill-brokers"
        if event.verb in {"load", "load-at"}:
            self._loaded = True

    def _add(self, verb: str, *words: str) -> None:
        self._actions.append(Action(verb, words))

    def _write(self, label: str) -> None:
        self._add("write", label, str(self._chance.choice([1, 5, 30, 100])))

    def _step(self) -> None:
        steps: list[Callable[[], None]] = [self._writes] * 3 + [self._rotates] * 3
        steps += [self._pauses]
        if "agent" in self._kinds:
            steps += [self._agent] * 4
        if "broker" in self._kinds and self._broker_dead:
            steps += [self._spoils_log] * 2
        if "loader" in self._kinds and self._loaded:
            steps += [self._spoils_landed]
        if "others" in self._kinds:
            steps += [self._others]
        self._chance.choice(steps)()

    def _label(self) -> str:
        return self._chance.choice(self._labels)

    def _writes(self) -> None:
        """Sometimes a line in two pieces, or a piece of which nobody knows whether more comes."""
        label = self._label()
        if self._chance.random() < 0.1:
            self._add("write-part", label)
            if self._chance.random() < 0.3:
                self._pauses()
            if self._chance.random() < 0.3:
                return
        self._write(label)

    def _pauses(self) -> None:
        if self._chance.random() < 0.5:
            self._add("settle")
        else:
            self._add("pause", f"{self._chance.uniform(0.1, 1.5):.1f}")

    def _rotates(self) -> None:
        label = self._label()
        if label == "s":
            verb = self._chance.choice(["switch", "switch", "unlink-old", "delete", "truncate"])
            self._destroys(verb, *(() if verb in {"switch", "unlink-old"} else ("s",)))
        elif self._chance.random() < 0.05:
            self._destroys("remove-folder", {"a": "one", "b": "one", "c": "two"}[label])
        else:
            verbs = ["rename", "create", "copytruncate", "compress", "date", "remake", "delete"]
            self._destroys(self._chance.choice([*verbs, "truncate"]), label)
        if self._chance.random() < 0.7:
            self._write(label)

    def _destroys(self, verb: str, *words: str) -> None:
        """What an agent cannot read in time is rarely written in front of it."""
        watched = self._alive and not self._frozen
        if verb not in KEEPS and watched and self._chance.random() < 0.9:
            self._add("settle")
        self._add(verb, *words)

    def _agent(self) -> None:
        """Killed or frozen, something happens to a file, and often it comes back."""
        if self._frozen:
            self._add("thaw-agent")
            self._frozen = False
        elif not self._alive:
            self._add("start-agent")
            self._alive = True
        else:
            if self._chance.random() < 0.5:
                self._add("settle")
            if self._chance.random() < 0.25:
                self._add("freeze-agent")
                self._frozen = True
            else:
                self._add(self._chance.choice(["kill-agent", "kill-agent", "stop-agent"]))
                self._alive = False
                if self._chance.random() < 0.15:
                    self._spoils_agent()
            for _ in range(self._chance.choice([1, 2, 3, 4])):
                self._chance.choice([self._writes, self._rotates, self._rotates])()
            if self._chance.random() < 0.5:
                self._add("pause", f"{self._chance.uniform(0.1, 3):.1f}")
            if self._chance.random() < 0.7:
                self._agent()

    def _spoils_agent(self) -> None:
        """While it is dead. What is full is free again in the middle, or at the end."""
        verb = self._chance.choice(
            ["wipe-agent", "tear-journal", "flip-journal", "fill-disk", "move-clock"]
        )
        if verb == "move-clock":
            self._add(verb, self._chance.choice(["-600", "-60", "-7", "+7", "+20"]))
        else:
            self._add(verb, *(("40",) if verb == "tear-journal" else ()))
        if verb == "fill-disk" and self._chance.random() < 0.5:
            self._add("start-agent")
            self._alive = True
            for label in self._labels:
                self._write(label)
            self._add("pause", "1.0")
            self._add("free-disk")

    def _spoils_log(self) -> None:
        verbs = ["remove-partition", "cut-tail", "flip-segment"]
        if self._all_dead:
            verbs += ["remove-replicas", "cut-replicas", "cut-replicas"]
        verb = self._chance.choice(verbs)
        cuts = verb in {"cut-tail", "cut-replicas"}
        words = (str(self._chance.choice([10, 200, 3000])),) if cuts else ()
        self._add(verb, *words)

    def _spoils_landed(self) -> None:
        self._add(self._chance.choice(["remove-landed", "flip-landed", "copy-landed"]))

    def _others(self) -> None:
        if self._broker_dead:
            return
        if self._chance.random() < 0.5:
            kind = self._chance.choice(["events", "events", "plain", "garbage"])
            self._add("foreign", kind, str(self._chance.choice([1, 20])))
        else:
            self._add("replay", str(self._chance.choice([1, 50])))
