"""The actions of a run. The input has read the journal once when they begin.

write N           sends so many entries of one line; `lines`: of several; `binary`: that are not
                  text; `long`: of 30 to 60 kB each
rotate            archives the journal's file
vacuum-files N    removes the oldest archived files, until so many are left
vacuum-size MB    the same, until the archived files are that small
cut PERCENT       cuts one of the archived files there, while journald restarts
restart-journald
kill-agent, stop-agent, start-agent
kill-journalctl   the agent's
pause SECONDS
"""

import random
from typing import Final

from tests.campaigns.script import Actions, Author, Script

WRITES: Final = ("write", "lines", "binary", "long")
ACTIONS: Final[Actions] = {
    **dict.fromkeys(WRITES, ("count",)),
    "vacuum-files": ("count",),
    "vacuum-size": ("megabytes",),
    "cut": ("percent",),
    "pause": ("seconds",),
    **dict.fromkeys(("rotate", "restart-journald", "kill-journalctl"), ()),
    **dict.fromkeys(("kill-agent", "stop-agent", "start-agent"), ()),
}


class JournalAuthor(Author):
    longest = (0.1, 0.3, 0.3, 1.0)

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.steps = [self.burst, *(3 * [self.remove]), self.end, self.end]
        self.steps += [lambda: self.add("restart-journald"), lambda: self.add("kill-journalctl")]

    def burst(self) -> None:
        verb = self.chance.choice(("write", *WRITES))
        self.add(verb, self.chance.randint(1, 20 if verb == "long" else 200))

    def end(self) -> None:
        """The agent ends, and misses what comes until the end of the scene."""
        self.add(self.chance.choice(("kill-agent", "kill-agent", "stop-agent")))
        self.mend("start-agent")

    def remove(self) -> None:
        """Files are removed or damaged, mostly with entries that were just written. The agent waits
        for half a second before it starts journalctl again."""
        if self.chance.random() < 0.4:
            self.add("kill-journalctl")
        if self.chance.random() < 0.7:
            self.burst()
        self.add("rotate")
        if self.chance.random() < 0.5:
            self.burst()
            self.add("rotate")
        match self.chance.choice(("", "files", "files", "size", "cut", "cut")):
            case "files":
                self.add("vacuum-files", self.chance.choice((1, 1, 2, 3)))
            case "size":
                self.add("vacuum-size", self.chance.choice((1, 2)))
            case "cut":
                self.add("cut", self.chance.choice((1, 30, 60, 95)))


def script_of(seed: int) -> Script:
    author = JournalAuthor(random.Random(seed))
    for _ in range(author.chance.choice((2, 3, 4, 5))):
        author.scene()
    return Script(seed, tuple(author.actions))
