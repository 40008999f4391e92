"""A minute of the witness: no verdict over these scripts is wrong.

It covers what agents meet, live, dead and frozen: all rotations, with and without kept files, lines
in two pieces, a disk that is full, a data directory that is wiped; a broker killed and started
again while logs grow, and logs removed, cut and flipped meanwhile; an audit whose database is
removed; a load in the middle, landed files removed, flipped and copied; replays and other
producers. Then a cluster of three brokers, of which two, then the last, then all are killed: lines
are lost by a leader that lacks something, and by replicas that are cut or removed everywhere. What
is done is the same each time. `make witness` goes on from there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.witness.batch import Outcome, run
from tests.witness.choosing import script_of
from tests.witness.pipeline import Pipeline
from tests.witness.script import parse

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Of a group whose broker is killed, whose audit is wiped, and that loads in the middle.
SEEDS: Final = (961, 962, 966, 968, 973, 974, 976, 978)
CLUSTER: Final = sorted(Path(__file__).with_name("scripts").glob("cluster-*.script"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_no_verdict_is_wrong(tmp_path: Path) -> None:
    scripts = [script_of(seed) for seed in SEEDS]
    with Pipeline(tmp_path, REPOSITORY) as pipeline:
        _no_verdict_is_wrong(run(pipeline, scripts, print))


def test_no_verdict_over_a_cluster_is_wrong(tmp_path: Path) -> None:
    scripts = [parse(each.read_text()) for each in CLUSTER]
    with Pipeline(tmp_path, REPOSITORY, brokers=3) as pipeline:
        outcomes = run(pipeline, scripts, print)
        happened = pipeline.happened
    _no_verdict_is_wrong(outcomes)
    assert happened["broker killed"] == happened["broker came back"] == 6
    assert happened["all brokers killed at once"] == 1
    assert happened["lead changed"] >= len(scripts)
    assert happened["unclean leader"] == 1
    lost = {each.script.seed: each.lost for each in outcomes}
    assert [seed for seed, count in lost.items() if not count] == [9502], lost


def _no_verdict_is_wrong(outcomes: Sequence[Outcome]) -> None:
    assert [each.error for each in outcomes if each.error] == []
    wrong = {
        str(each.script): [*map(str, each.objections), *map(str, each.findings)]
        for each in outcomes
        if not each.right
    }
    assert wrong == {}
