"""Mirrors that are broken on purpose, each a program in the place of `penstock mirror`: a plain
mirror of its own code, that does one thing wrong.

`FLAWS` says by which of the judge's rules each must be caught, with the script in scripts/ that
makes it show. The same plain mirror without a flaw (`whole`), and Penstock's, must come through
these scripts.
"""

from pathlib import Path
from typing import Final

from tests.cluster_history import broken
from tests.cluster_history.script import Script
from tests.mirror_history.script import parse

SCRIPTS: Final = Path(__file__).parents[1] / "scripts"
WHOLE: Final = f"{__name__}.whole"


class Flaw(broken.Flaw, frozen=True):
    def parsed(self) -> Script:
        return parse((SCRIPTS / f"{self.script}.script").read_text())


FLAWS: Final = {
    "skips": Flaw(
        rule="same offsets",
        left_out="every batch is copied: one is not, and what follows is numbered on",
        script="copied",
        breaks=frozenset({"changed", "invented"}),
    ),
    "makes-anew": Flaw(
        rule="same bytes",
        left_out="no batch is opened: timestamps are others, and the CRC fits them",
        script="copied",
        breaks=frozenset({"changed"}),
    ),
    "shifts": Flaw(
        rule="same offsets",
        left_out="a copy begins where its source begins",
        script="copied",
        breaks=frozenset({"invented", "changed"}),
    ),
    "leaps": Flaw(
        rule="gaps stop it",
        left_out="nothing is copied beyond a gap",
        script="overtaken",
        breaks=frozenset({"beyond"}),
    ),
    "is-silent": Flaw(
        rule="gaps stop it",
        left_out="a gap is an error that names both ends",
        script="overtaken",
        breaks=frozenset({"silent"}),
    ),
}
