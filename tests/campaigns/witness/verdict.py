"""What the audit said of one topic, what was found in its log and its landed files, and what is
wrong with that, by the rule that it broke. Values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tests.campaigns import outcomes
from tests.campaigns.reading import DeadLetter, Row
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.truth import Line


class Called(msgspec.Struct, frozen=True):
    """A finding, with the names of the audit's API. What is not known is -1 or empty."""

    kind: str
    words: str
    tier: str = ""
    host: str = ""
    path: str = ""
    source: str = ""
    seq: int = -1
    events: int = -1
    position: int = -1
    end_position: int = -1
    partition: int = -1
    offset: int = -1
    offsets: int = -1
    from_time: int = -1
    to_time: int = -1
    accepted: str = ""
    harmless: str = ""

    @property
    def is_of_rows(self) -> bool:
        """That they may be there twice."""
        return self.kind == "unknown" and self.seq >= 0 and self.events > 0

    @property
    def is_moment(self) -> bool:
        """That a file may have been emptied while nobody looked: said, and not red."""
        words = ("for a moment only", "every name is known")
        return self.kind == "unknown" and self.harmless.startswith(words)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "list[Called]":
        """Lost bytes, and what followed them unseen, are two."""
        called = cls(**{name: answer[name] for name in cls.__struct_fields__ if name in answer})
        if not answer.get("unseen_end"):
            return [called]
        end = {"position": called.end_position, "end_position": -1, "seq": -1, "events": -1}
        return [called, replace(called, kind="unknown", **end)]


class Cell(msgspec.Struct, frozen=True):
    start: int
    length: int
    state: str
    waits: bool = False  # whatever its state is


class Verdict(msgspec.Struct, frozen=True):
    """What the report and the API say of one topic."""

    exit_code: int
    state: str
    findings: tuple[Called, ...] = ()
    cells: tuple[Cell, ...] = ()
    waits: tuple[str, ...] = ()
    missing: int = 0
    excess: int = 0
    hosts_missing: int = 0
    host_states: tuple[str, ...] = ()
    landed_events: int = -1  # of the tier hdfs; -1 if it has none
    flow: Mapping[str, int] = {}
    stderr: str = ""


class Seen(msgspec.Struct, frozen=True):
    """What is there: rows, all records that ever were in the log, and dead letters."""

    rows: Sequence[Row]
    records: Sequence[Kept] = ()
    dead: Sequence[DeadLetter] = ()


GREEN: Final = "false green"
RED: Final = "false red"
INEXACT: Final = "not exact"
NEEDLESS: Final = "false unknown"
KIND_OF_RULE: Final = {
    "hole": GREEN,
    "brief hole": GREEN,
    "small copy": GREEN,
    "green": GREEN,
    "double": GREEN,
    "rows": GREEN,
    "not lost": RED,
    "not double": RED,
    "unexplained": RED,
    "stuck": RED,
    "count": INEXACT,
    "sums": INEXACT,
    "exit": INEXACT,
    NEEDLESS: NEEDLESS,
}


class Objection(outcomes.Objection, frozen=True):
    """One rule that a verdict broke."""

    lines: tuple[Line | Kept, ...] = ()
    beside_red: bool = False  # the verdict was not green, but did not say this

    @property
    def kind(self) -> str:
        kind = KIND_OF_RULE[self.rule]
        return INEXACT if kind == GREEN and self.beside_red else kind

    def __str__(self) -> str:
        shown = "; ".join(str(each) for each in self.lines[:3])
        more = f" and {len(self.lines) - 3} more" if len(self.lines) > 3 else ""
        return f"{self.kind} [{self.rule}] {self.words}{': ' if shown else ''}{shown}{more}"
