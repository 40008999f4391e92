"""What is wrong with a verdict, by the rule that it broke. Values."""

from typing import Final

from tests.campaigns import outcomes
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.truth import Line

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
