"""A minute of the witness: no verdict over these scripts is wrong.

Eight scripts, six of them with `make test-long`, cover what agents meet, live, dead and frozen:
all rotations, with and without kept files, lines in two pieces, a disk that is full, a data
directory that is wiped; a broker killed and started again while logs grow, and logs removed, cut
and flipped meanwhile; an audit whose database is removed; a load in the middle, landed files
removed, flipped and copied; replays and other producers. What is done is the same each time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.campaigns.command import REPOSITORY
from tests.campaigns.witness.batch import run
from tests.campaigns.witness.pipeline import Pipeline
from tests.campaigns.witness.script import script_of

# Of a group whose broker is killed, whose audit is wiped, and that loads in the middle.
FEW: Final = (961, 974)
MORE: Final = (962, 966, 968, 973, 976, 978)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MORE, marks=pytest.mark.long)], ids=len)
def test_no_verdict_is_wrong(seeds: Sequence[int], tmp_path: Path) -> None:
    scripts = [script_of(seed) for seed in seeds]
    with Pipeline(tmp_path, REPOSITORY) as pipeline:
        outcomes = run(pipeline, scripts, print)
    assert [each.error for each in outcomes if each.error] == []
    wrong = {
        str(each.script): [*map(str, each.objections), *each.figures]
        for each in outcomes
        if not each.right
    }
    assert wrong == {}
