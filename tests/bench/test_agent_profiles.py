"""The profiles of agents: chosen by their name, and some of their cases run from end to end."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.figures.measurement import Figure
from bench.figures.profile import QUICK, ServerKind
from bench.figures.rounds import measure
from bench.figures.shipping_figures import CORES, LINES_PER_SECOND
from bench.peers import PEERS
from bench.profiles import PROFILES
from bench.profiles.latency import P99
from bench.servers.brokers import PENSTOCK
from bench.servers.shippers import shippers

pytestmark = pytest.mark.long

# Of Debian, and what was made here by `make bench-peers`.
HERE = [name for name, peer in PEERS.items() if peer.why_not() is None]
_TINY = replace(QUICK, lines=3_000, files=10, latency_seconds=0.2, warm_up_seconds=0.1)


Kinds = Mapping[str, ServerKind]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    with shippers(tmp_path_factory.mktemp("site"), [PENSTOCK, *HERE]) as started:
        yield started


def _run(
    profile: str, case: str, kinds: Kinds, shipper: str, directory: Path
) -> Mapping[Figure, float]:
    results = measure(
        PROFILES[profile],
        {shipper: kinds[shipper]},
        _TINY,
        rounds=1,
        directory=directory,
        files=directory,
        only=[case],
    )
    (outcome,) = results.outcomes.values()
    assert outcome.failure is None
    (sample,) = outcome.samples
    return sample


@pytest.mark.slow
def test_agents_are_measured(kinds: Kinds, tmp_path: Path) -> None:
    def run(profile: str, case: str) -> Mapping[Figure, float]:
        return _run(profile, case, kinds, "Penstock", tmp_path)

    assert run("agent-backlog", "JSON, six typed fields")[LINES_PER_SECOND] > 0
    trickling = run("agent-steady", "a line a second")
    assert trickling[CORES] < 1
    assert trickling[Figure("lines a batch", 1, more_is_better=True)] >= 1
    assert run("agent-latency", "1,000 lines/s")[P99] > 0
