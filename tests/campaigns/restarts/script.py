"""What one restart plays: for each topic a style of rotation, a moment, files and patterns. The
seed decides alone. Values.

    seed 7
    agent up SIGKILL
    rename -0.02 own 12 live whole
    copytruncate 2 shared 300 rotated gap

Every script that a seed stands for has each pair of style and moment once. Seconds are from the
signal on where they are negative, and else from when the agent is back; at 0 it is dead, or halfway
through a freeze.
"""

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.campaigns import script
from tests.campaigns.script import Action

ROTATING: Final = 4  # files of a topic that are written all the time and rotated at its moment
CHAIN: Final = 2  # older files (`.1`, `.2`) that a numbered chain begins with
SHARED_FOLDERS: Final = 3
SUBFOLDERS: Final = 3
# The agent keeps 1,024 files open: one topic of 300, one of 40, and what is rotated leave room.
FILES: Final = (300, 40)
FEW_FILES: Final = 12
GAP_LINES: Final = 2  # that a copytruncate with a gap writes between copy and truncation


class Signal(StrEnum):
    """What happens to the agent."""

    KILL = "SIGKILL"
    TERM = "SIGTERM"
    FREEZE = "frozen"  # SIGSTOP, and SIGCONT three seconds later
    RESTART = "restart"  # `systemctl restart`, as for an upgrade


SIGNALS: Final = {"up": tuple(Signal)[:3], "systemd": tuple(Signal)}


class Style(StrEnum):
    """How a file is rotated."""

    RENAME = "rename"  # app.log becomes app.log.1
    CHAIN = "chain"  # .2 becomes .3, .1 becomes .2, app.log becomes .1
    DATE = "date"  # app.log becomes app.log-20261129
    NEW_NAME = "new-name"  # the application goes on in app-2.log
    COPYTRUNCATE = "copytruncate"
    GZIP = "gzip"  # app.log becomes app.log.1, and that app.log.1.gz
    DELETE = "delete"  # app.log becomes app.log.1, and that is gone


MOMENTS: Final = (-2.0, -0.2, -0.02, 0.0, 0.02, 2.0)
OWN, SHARED, WILDCARD = LAYOUTS = ("own", "shared", "wildcard")
ACTIONS: Final = {str(each): ("SECONDS", "LAYOUT", "FILES", "NAMES", "GAP") for each in Style}


class TopicPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One topic of one restart."""

    name: str
    style: Style
    moment: float
    layout: str
    files: int
    folder: str  # absolute; with a wildcard, the one above the folders with files
    rotated_match: bool  # whether the pattern matches rotated names, too
    gap: bool  # of a copytruncate: lines are written between the copy and the truncation

    @property
    def pattern(self) -> str:
        """What the agent is told to follow."""
        names = "*.log*" if self.rotated_match else "*.log"
        if self.layout == SHARED:
            return f"{self.folder}/{self.name}.{names}"
        return f"{self.folder}/{'*/' if self.layout == WILDCARD else ''}{names}"

    def stem(self, stream: int) -> Path:
        """The path of a stream's file, without `.log`."""
        folder = Path(self.folder)
        if self.layout == SHARED:
            return folder / f"{self.name}.app{stream:03}"
        if self.layout == WILDCARD:
            return folder / f"part-{stream % SUBFOLDERS}" / f"app{stream:03}"
        return folder / f"app{stream:03}"

    @property
    def streams(self) -> int:
        """Files that are written to: those of a chain have older ones beside them."""
        older = ROTATING * CHAIN if self.style is Style.CHAIN else 0
        return max(ROTATING, self.files - older)


class Script(script.Script, frozen=True):
    environment: str = "up"
    signal: Signal = Signal.KILL

    def head(self) -> list[str]:
        return [f"agent {self.environment} {self.signal}"]

    @classmethod
    def read(cls, words: Sequence[str]) -> dict[str, Any] | None:
        if words[0] == "agent":
            return {"environment": words[1], "signal": Signal(words[2])}
        return super().read(words)

    def topics(self, root: Path) -> tuple[TopicPlan, ...]:
        """With their files below `root`."""
        found = []
        for number, action in enumerate(self.actions):
            seconds, layout, files, names, gap = action.words
            name = f"r{self.seed}-{number:02}"
            folder = f"shared-{number % SHARED_FOLDERS}" if layout == SHARED else name
            found.append(
                TopicPlan(
                    name=name,
                    style=Style(action.verb),
                    moment=float(seconds),
                    layout=layout,
                    files=int(files),
                    folder=str(root / folder),
                    rotated_match=names == "rotated",
                    gap=gap == "gap",
                )
            )
        return tuple(found)


def script_of(
    seed: int,
    environment: str = "up",
    *,
    pairs: Sequence[tuple[Style, float]] = (),
    files: Sequence[int] = FILES,
) -> Script:
    """Without `pairs` it has all 42. `files` are the numbers of files of the first topics; the
    others have few. The seed counts through the signals."""
    chance = random.Random(seed)
    played = list(pairs) or [(style, moment) for style in Style for moment in MOMENTS]
    chance.shuffle(played)
    counts = [*files, *[FEW_FILES] * len(played)][: len(played)]
    chance.shuffle(counts)
    actions = [
        Action(
            style,
            (
                f"{moment:g}",
                chance.choice(LAYOUTS),
                str(count),
                chance.choice(["live", "rotated"]),
                chance.choice(["whole", "gap"]),
            ),
        )
        for (style, moment), count in zip(played, counts, strict=True)
    ]
    signals = SIGNALS[environment]
    return Script(seed, tuple(actions), environment, signals[seed % len(signals)])


def pairs_of(part: int, parts: int) -> list[tuple[Style, float]]:
    """Every style at some moments, so that all parts together have each pair once."""
    return [
        (style, moment)
        for row, style in enumerate(Style)
        for column, moment in enumerate(MOMENTS)
        if (row + column) % parts == part
    ]
