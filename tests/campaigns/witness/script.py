"""What a run of the witness does, and which script a seed stands for. The seed decides alone. Pure.

`input …` says how the agent is told of the files, `topic unclean` that any one replica of its topic
is enough to acknowledge, and may lead whatever it lacks. A line that begins with `==` is an event
of the whole pipeline, that all scripts of a batch share, and every other line is an action of this
run alone. Seeds of one group have their shared events in common, so that they can be run side by
side.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.campaigns import script
from tests.campaigns.script import SHARED, Action, Author

# An action's words.
PRIVATE: Final = {
    # An application writes.
    "write": ("LABEL", "LINES"),
    "write-part": ("LABEL",),  # the beginning of a line, that the next write completes
    # What rotates and removes.
    "rename": ("LABEL",),  # a.log.1 of a.log, older ones one further
    "create": ("LABEL",),  # the same, and an empty new file at once
    "copytruncate": ("LABEL",),
    "compress": ("LABEL",),  # rename, and gzip of what was renamed
    "date": ("LABEL",),  # a.log becomes a-DATE.log
    "remake": ("LABEL",),  # deleted, and made anew at once
    "delete": ("LABEL",),
    "truncate": ("LABEL",),  # in place, to nothing
    "switch": (),  # of a symbolic link to a new file
    "unlink-old": (),  # files that a link has left
    "remove-folder": ("FOLDER",),
    # The agent.
    "kill-agent": (),
    "stop-agent": (),
    "start-agent": (),
    "freeze-agent": (),
    "thaw-agent": (),
    "move-clock": ("SECONDS",),  # of the agent's next start
    "wipe-agent": (),  # its data directory is removed
    "tear-journal": ("BYTES",),  # off its newest file
    "flip-journal": (),
    "fill-disk": (),  # that of the agent's data directory
    "free-disk": (),
    # The log, while the broker is dead.
    "remove-partition": (),
    "cut-tail": ("BYTES",),
    "flip-segment": (),
    # The same of all replicas, while all brokers of a cluster are dead.
    "remove-replicas": (),
    "cut-replicas": ("BYTES",),  # of the first, twice as many of the next
    # What has landed.
    "remove-landed": (),
    "flip-landed": (),
    "copy-landed": (),
    # Others write to the topic.
    "foreign": ("KIND", "EVENTS"),  # events, plain, garbage
    "replay": ("RECORDS",),
    # Time.
    "pause": ("SECONDS",),
    "settle": (),  # until the agent has nothing left to ship
}
EVENTS: Final = {
    "kill-broker": (),
    "start-broker": (),
    "freeze-broker": (),
    "thaw-broker": (),
    "wipe-broker": (),  # its data directory, while it is dead; of a cluster
    "kill-others": (),  # of a cluster: all but that one, which leads alone then
    "start-others": (),
    "kill-brokers": (),  # all of a cluster, at once
    "start-brokers": (),
    "fill-broker-disk": (),  # that of its data directory
    "free-broker-disk": (),
    "kill-registry": (),
    "start-registry": (),
    "freeze-registry": (),
    "thaw-registry": (),
    "kill-audit": (),
    "start-audit": (),
    "wipe-audit": (),
    "freeze-audit": (),
    "thaw-audit": (),
    "load": (),
    "load-at": ("SECONDS",),  # a load whose clock is so much ahead
    "kill-load": ("SECONDS",),  # after its start
    "mark": (),  # nothing happens; all wait for each other
}
ACTIONS: Final = {**PRIVATE, **{f"{SHARED} {verb}": words for verb, words in EVENTS.items()}}
INPUTS: Final = ("all", "live")  # patterns match rotated names too, or only the name written to

GROUP: Final = 20
SCENES: Final = 3
KEEPS: Final = {"rename", "create", "date", "switch"}  # what was written
WRONG_CLOCKS: Final = ("-7200", "-60", "+60", "+7200")  # of a load; hours end in between
KINDS: Final = ("agent", "broker", "loader", "audit", "others")


class Script(script.Script, frozen=True):
    patterns: str = "all"  # one of INPUTS
    kept: bool = False  # whether somebody keeps the agent's open files over its death, as systemd
    unclean: bool = False  # of a cluster: whether any replica may lead its topic, and is enough

    def head(self) -> list[str]:
        said = [f"input {self.patterns}{' kept' if self.kept else ''}"]
        return said + (["topic unclean"] if self.unclean else [])

    @classmethod
    def read(cls, words: Sequence[str]) -> dict[str, Any] | None:
        if words[0] == "input":
            return {"patterns": words[1], "kept": "kept" in words[2:]}
        if words[0] == "topic":
            return {"unclean": "unclean" in words[1:]}
        return super().read(words)

    @property
    def shared(self) -> tuple[Action, ...]:
        return tuple(each for each in self.actions if each.shared)

    def acts(self) -> list[tuple[Action, ...]]:
        """What is between the events that are shared: one more than these."""
        found: list[list[Action]] = [[]]
        for action in self.actions:
            if action.shared:
                found.append([])
            else:
                found[-1].append(action)
        return [tuple(each) for each in found]


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
    actions = tuple(_Author(chance, kinds, score).written())
    return Script(seed, actions, patterns, kept, unclean)


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


class _Author(Author):
    def __init__(
        self, chance: random.Random, kinds: Sequence[str], score: Sequence[Action]
    ) -> None:
        super().__init__(chance)
        self._kinds = kinds
        self._score = score
        self._alive = False
        self._frozen = False
        self._broker_dead = False
        self._all_dead = False
        self._loaded = False
        # A run is about a few labels: what happens happens to the same files.
        self._labels = chance.sample(["a", "b", "c", "s"], chance.choice([1, 2, 2, 3]))

    def written(self) -> list[Action]:
        for label in self._labels:
            if self.chance.random() < 0.5:
                self._write(label)
        self.add("start-agent")
        self._alive = True
        for label in self._labels:
            self._write(label)
        self.add("settle")
        for number in range(len(self._score) + 1):
            for _ in range(self.chance.choice([1, 2, 3])):
                self._step()
            if number < len(self._score):
                self._shared(self._score[number])
        for label in self._labels:
            if self.chance.random() < 0.5:
                self._write(label)
        return self.actions

    def _shared(self, event: Action) -> None:
        self.actions.append(event)
        if event.verb in {"kill-broker", "start-broker"}:
            self._broker_dead = event.verb == "kill-broker"
        if event.verb in {"kill-brokers", "start-brokers"}:
            self._broker_dead = self._all_dead = event.verb == "kill-brokers"
        if event.verb in {"load", "load-at"}:
            self._loaded = True

    def _write(self, label: str) -> None:
        self.add("write", label, str(self.chance.choice([1, 5, 30, 100])))

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
        self.chance.choice(steps)()

    def _label(self) -> str:
        return self.chance.choice(self._labels)

    def _writes(self) -> None:
        """Sometimes a line in two pieces, or a piece of which nobody knows whether more comes."""
        label = self._label()
        if self.chance.random() < 0.1:
            self.add("write-part", label)
            if self.chance.random() < 0.3:
                self._pauses()
            if self.chance.random() < 0.3:
                return
        self._write(label)

    def _pauses(self) -> None:
        if self.chance.random() < 0.5:
            self.add("settle")
        else:
            self.add("pause", f"{self.chance.uniform(0.1, 1.5):.1f}")

    def _rotates(self) -> None:
        label = self._label()
        if label == "s":
            verb = self.chance.choice(["switch", "switch", "unlink-old", "delete", "truncate"])
            self._destroys(verb, *(() if verb in {"switch", "unlink-old"} else ("s",)))
        elif self.chance.random() < 0.05:
            self._destroys("remove-folder", {"a": "one", "b": "one", "c": "two"}[label])
        else:
            verbs = ["rename", "create", "copytruncate", "compress", "date", "remake", "delete"]
            self._destroys(self.chance.choice([*verbs, "truncate"]), label)
        if self.chance.random() < 0.7:
            self._write(label)

    def _destroys(self, verb: str, *words: str) -> None:
        """What an agent cannot read in time is rarely written in front of it."""
        watched = self._alive and not self._frozen
        if verb not in KEEPS and watched and self.chance.random() < 0.9:
            self.add("settle")
        self.add(verb, *words)

    def _agent(self) -> None:
        """Killed or frozen, something happens to a file, and often it comes back."""
        if self._frozen:
            self.add("thaw-agent")
            self._frozen = False
        elif not self._alive:
            self.add("start-agent")
            self._alive = True
        else:
            if self.chance.random() < 0.5:
                self.add("settle")
            if self.chance.random() < 0.25:
                self.add("freeze-agent")
                self._frozen = True
            else:
                self.add(self.chance.choice(["kill-agent", "kill-agent", "stop-agent"]))
                self._alive = False
                if self.chance.random() < 0.15:
                    self._spoils_agent()
            for _ in range(self.chance.choice([1, 2, 3, 4])):
                self.chance.choice([self._writes, self._rotates, self._rotates])()
            if self.chance.random() < 0.5:
                self.add("pause", f"{self.chance.uniform(0.1, 3):.1f}")
            if self.chance.random() < 0.7:
                self._agent()

    def _spoils_agent(self) -> None:
        """While it is dead. What is full is free again in the middle, or at the end."""
        verb = self.chance.choice(
            ["wipe-agent", "tear-journal", "flip-journal", "fill-disk", "move-clock"]
        )
        if verb == "move-clock":
            self.add(verb, self.chance.choice(["-600", "-60", "-7", "+7", "+20"]))
        else:
            self.add(verb, *(("40",) if verb == "tear-journal" else ()))
        if verb == "fill-disk" and self.chance.random() < 0.5:
            self.add("start-agent")
            self._alive = True
            for label in self._labels:
                self._write(label)
            self.add("pause", "1.0")
            self.add("free-disk")

    def _spoils_log(self) -> None:
        verbs = ["remove-partition", "cut-tail", "flip-segment"]
        if self._all_dead:
            verbs += ["remove-replicas", "cut-replicas", "cut-replicas"]
        verb = self.chance.choice(verbs)
        cuts = verb in {"cut-tail", "cut-replicas"}
        words = (str(self.chance.choice([10, 200, 3000])),) if cuts else ()
        self.add(verb, *words)

    def _spoils_landed(self) -> None:
        self.add(self.chance.choice(["remove-landed", "flip-landed", "copy-landed"]))

    def _others(self) -> None:
        if self._broker_dead:
            return
        if self.chance.random() < 0.5:
            kind = self.chance.choice(["events", "events", "plain", "garbage"])
            self.add("foreign", kind, str(self.chance.choice([1, 20])))
        else:
            self.add("replay", str(self.chance.choice([1, 50])))
