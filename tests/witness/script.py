"""What a run does, as a list of actions that a person can read, and that is the run. Pure.

A script is text: `input …` says how the agent is told of the files, `topic unclean` that any one
replica of its topic is enough to acknowledge, and may lead whatever it lacks. A line that begins
with `==` is an event of the whole pipeline, that all scripts of a batch share, and every other line
is an action of this run alone. So a script that went wrong can be shortened by taking lines away,
kept in a file, and run again.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace


class BadScript(Exception):
    """A line that is no action; says which."""


# An action's words, and how many follow.
PRIVATE: Final = {
    # An application writes.
    "write": 2,  # LABEL LINES
    "write-part": 1,  # LABEL: the beginning of a line, that the next write completes
    # What rotates and removes.
    "rename": 1,  # LABEL: a.log.1 of a.log, older ones one further
    "create": 1,  # the same, and an empty new file at once
    "copytruncate": 1,
    "compress": 1,  # rename, and gzip of what was renamed
    "date": 1,  # a.log becomes a-DATE.log
    "remake": 1,  # deleted, and made anew at once
    "delete": 1,
    "truncate": 1,  # in place, to nothing
    "switch": 0,  # of a symbolic link to a new file
    "unlink-old": 0,  # files that a link has left
    "remove-folder": 1,  # FOLDER
    # The agent.
    "kill-agent": 0,
    "stop-agent": 0,
    "start-agent": 0,
    "freeze-agent": 0,
    "thaw-agent": 0,
    "move-clock": 1,  # SECONDS: of the agent's next start
    "wipe-agent": 0,  # its data directory is removed
    "tear-journal": 1,  # BYTES off its newest file
    "flip-journal": 0,
    "fill-disk": 0,  # that of the agent's data directory
    "free-disk": 0,
    # The log, while the broker is dead.
    "remove-partition": 0,
    "cut-tail": 1,  # BYTES
    "flip-segment": 0,
    # The same of all replicas, while all brokers of a cluster are dead.
    "remove-replicas": 0,
    "cut-replicas": 1,  # BYTES of the first, twice as many of the next
    # What has landed.
    "remove-landed": 0,
    "flip-landed": 0,
    "copy-landed": 0,
    # Others write to the topic.
    "foreign": 2,  # KIND EVENTS: events, plain, garbage
    "replay": 1,  # RECORDS
    # Time.
    "pause": 1,  # SECONDS
    "settle": 0,  # until the agent has nothing left to ship
}
SHARED: Final = {
    "kill-broker": 0,
    "start-broker": 0,
    "freeze-broker": 0,
    "thaw-broker": 0,
    "wipe-broker": 0,  # its data directory, while it is dead; of a cluster
    "kill-others": 0,  # of a cluster: all but that one, which leads alone then
    "start-others": 0,
    "kill-brokers": 0,  # all of a cluster, at once
    "start-brokers": 0,
    "fill-broker-disk": 0,  # that of its data directory
    "free-broker-disk": 0,
    "kill-registry": 0,
    "start-registry": 0,
    "freeze-registry": 0,
    "thaw-registry": 0,
    "kill-audit": 0,
    "start-audit": 0,
    "wipe-audit": 0,
    "freeze-audit": 0,
    "thaw-audit": 0,
    "load": 0,
    "load-at": 1,  # SECONDS: a load whose clock is so much ahead
    "kill-load": 1,  # SECONDS after its start
    "mark": 0,  # nothing happens; all wait for each other
}
INPUTS: Final = ("all", "live")  # patterns match rotated names too, or only the name written to


class Action(msgspec.Struct, frozen=True):
    """`write a 20`; of the whole pipeline: `== kill-broker`."""

    verb: str
    words: tuple[str, ...] = ()
    shared: bool = False

    def __str__(self) -> str:
        return " ".join((*(("==",) if self.shared else ()), self.verb, *self.words))


class Script(msgspec.Struct, frozen=True):
    seed: int
    patterns: str  # one of INPUTS
    kept: bool  # whether somebody keeps the agent's open files over its death, as systemd does
    actions: tuple[Action, ...]
    unclean: bool = False  # of a cluster: whether any replica may lead its topic, and is enough

    def __str__(self) -> str:
        head = [f"seed {self.seed}", f"input {self.patterns}{' kept' if self.kept else ''}"]
        head += ["topic unclean"] if self.unclean else []
        return "\n".join([*head, *map(str, self.actions)]) + "\n"

    def with_actions(self, actions: Sequence[Action]) -> "Script":
        return replace(self, actions=tuple(actions))

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


def parse(text: str) -> Script:
    seed, patterns, kept, unclean = 0, "all", False, False
    actions = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        words = line.split()
        if not words:
            continue
        if words[0] == "seed":
            seed = int(words[1])
        elif words[0] == "input":
            patterns, kept = words[1], "kept" in words[2:]
        elif words[0] == "topic":
            unclean = "unclean" in words[1:]
        else:
            actions.append(_action(words, number))
    return Script(seed, patterns, kept, tuple(actions), unclean)


def _action(words: Sequence[str], number: int) -> Action:
    shared = words[0] == "=="
    verb, *rest = words[1:] if shared else words
    known = SHARED if shared else PRIVATE
    if verb not in known or len(rest) != known[verb]:
        wanted = ", ".join(f"{name} ({count})" for name, count in sorted(known.items()))
        raise BadScript(f"line {number}: {' '.join(words)!r} is no action; there are: {wanted}")
    return Action(verb, tuple(rest), shared)
