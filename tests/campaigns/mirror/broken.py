"""Mirrors that are broken on purpose, in the place of `penstock mirror`: a plain mirror of its own
code, that does one thing wrong. Without a flaw (WHOLE) it must come through these scripts."""

import os
from typing import Final

from tests.campaigns.flaws import BROKEN, Flaw
from tests.campaigns.mirror.plain_mirror import Flaws, run

WHOLE: Final = "whole"
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

if __name__ == "__main__":
    named = os.environ[BROKEN].replace("-", "_")
    run(Flaws(**{each: each == named for each in Flaws.__struct_fields__}))
