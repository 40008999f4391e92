"""What one restart plays: for each topic a style of rotation, a moment, files and patterns.

Values only, chosen by a seed. The same seed always gives the same plan, and every plan of 42 topics
has each pair of style and moment once.
"""

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

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
    RESTART = "restart"  # `systemctl restart`, as for an upgrade
    FREEZE = "frozen"  # SIGSTOP, and SIGCONT three seconds later


SIGNALS: Final = (Signal.KILL, Signal.TERM, Signal.FREEZE)  # that any agent can be sent


class Style(StrEnum):
    """How a file is rotated."""

    RENAME = "rename"  # app.log becomes app.log.1
    CHAIN = "chain"  # .2 becomes .3, .1 becomes .2, app.log becomes .1
    DATE = "date"  # app.log becomes app.log-20261129
    NEW_NAME = "new name"  # the application goes on in app-2.log
    COPYTRUNCATE = "copytruncate"
    GZIP = "rename, gzip"  # app.log becomes app.log.1, and that app.log.1.gz
    DELETE = "rename, delete"  # app.log becomes app.log.1, and that is gone


class Moment(StrEnum):
    """When the files of a topic are rotated."""

    BEFORE_2S = "2 s before"
    BEFORE_200MS = "200 ms before"
    BEFORE_20MS = "20 ms before"
    DEAD = "while dead"  # or halfway through a freeze
    AFTER_20MS = "20 ms after"  # the agent is back
    AFTER_2S = "2 s after"

    @property
    def seconds(self) -> float:
        """From the signal, or from when the agent is back."""
        return _SECONDS[self]

    @property
    def is_before(self) -> bool:
        return self.seconds < 0


_SECONDS: Final = {
    Moment.BEFORE_2S: -2.0,
    Moment.BEFORE_200MS: -0.2,
    Moment.BEFORE_20MS: -0.02,
    Moment.DEAD: 0.0,
    Moment.AFTER_20MS: 0.02,
    Moment.AFTER_2S: 2.0,
}


class Layout(StrEnum):
    """Where the files of a topic are."""

    OWN = "own folder"
    SHARED = "shared folder"
    WILDCARD = "folders by wildcard"


class TopicPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One topic of one restart."""

    name: str
    style: Style
    moment: Moment
    layout: Layout
    files: int
    folder: str  # absolute; with a wildcard, the one above the folders with files
    rotated_match: bool  # whether the pattern matches rotated names, too
    gap: bool  # of a copytruncate: lines are written between the copy and the truncation

    @property
    def pattern(self) -> str:
        """What the agent is told to follow."""
        names = "*.log*" if self.rotated_match else "*.log"
        if self.layout is Layout.SHARED:
            return f"{self.folder}/{self.name}.{names}"
        if self.layout is Layout.WILDCARD:
            return f"{self.folder}/*/{names}"
        return f"{self.folder}/{names}"

    def stem(self, stream: int) -> Path:
        """The path of a stream's file, without `.log`."""
        folder = Path(self.folder)
        if self.layout is Layout.SHARED:
            return folder / f"{self.name}.app{stream:03}"
        if self.layout is Layout.WILDCARD:
            return folder / f"part-{stream % SUBFOLDERS}" / f"app{stream:03}"
        return folder / f"app{stream:03}"

    @property
    def streams(self) -> int:
        """Files that are written to: those of a chain have older ones beside them."""
        older = ROTATING * CHAIN if self.style is Style.CHAIN else 0
        return max(ROTATING, self.files - older)


class RestartPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One restart."""

    seed: int
    signal: Signal
    topics: tuple[TopicPlan, ...]


def restart_plan(
    seed: int,
    root: Path,
    signals: Sequence[Signal] = SIGNALS,
    pairs: Sequence[tuple[Style, Moment]] = (),
    files: Sequence[int] = FILES,
) -> RestartPlan:
    """The plan of this seed, with its files below `root`. Without `pairs` it has all 42. `files`
    are the numbers of files of the first topics; the others have few. The seed counts through
    `signals`."""
    chance = random.Random(seed)
    played = list(pairs) or [(style, moment) for style in Style for moment in Moment]
    chance.shuffle(played)
    counts = [*files, *[FEW_FILES] * len(played)][: len(played)]
    chance.shuffle(counts)
    topics = []
    for number, ((style, moment), count) in enumerate(zip(played, counts, strict=True)):
        name = f"r{seed}-{number:02}"
        layout = chance.choice(list(Layout))
        shared = f"shared-{chance.randrange(SHARED_FOLDERS)}"
        topics.append(
            TopicPlan(
                name=name,
                style=style,
                moment=moment,
                layout=layout,
                files=count,
                folder=str(root / (shared if layout is Layout.SHARED else name)),
                rotated_match=chance.random() < 0.5,
                gap=chance.random() < 0.5,
            )
        )
    return RestartPlan(seed=seed, signal=signals[seed % len(signals)], topics=tuple(topics))


def pairs_of(part: int, parts: int) -> list[tuple[Style, Moment]]:
    """Every style at some moments, so that all parts together have each pair once."""
    moments = list(Moment)
    return [
        (style, moment)
        for row, style in enumerate(Style)
        for column, moment in enumerate(moments)
        if (row + column) % parts == part
    ]
