"""The profiles of registries: chosen by their name, and run on a registry given by its address."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.figures.profile import QUICK
from bench.figures.rounds import measure
from bench.loads.registry_load import CPU, RATE
from bench.profiles import PROFILES, registry_startup
from bench.servers.registry_servers import elsewhere, running
from harness.penstock.registry import RegistryProcess

_TINY = replace(QUICK, seconds=0.05, schemas=20, versions=10)


@pytest.mark.parametrize("name", ["registry-reads", "registry-writes"])
def test_a_registry_that_is_elsewhere_is_measured(
    name: str, running_registry: RegistryProcess, tmp_path: Path
) -> None:
    there = elsewhere(running_registry.url, running_registry.process.pid)
    assert there.name == running_registry.address
    results = measure(
        PROFILES[name],
        {there.name: running(there)},
        _TINY,
        rounds=1,
        directory=tmp_path,
        files=tmp_path,
    )
    for case in PROFILES[name].cases:
        outcome = results.outcomes[case.name, there.name]
        assert outcome.failure is None, case.name
        (sample,) = outcome.samples
        assert sample[RATE] > 0
        assert sample[CPU] >= 0


def test_what_was_started_by_others_is_not_started_again(
    running_registry: RegistryProcess, tmp_path: Path
) -> None:
    there = elsewhere(running_registry.url, None)
    results = measure(
        registry_startup.PROFILE,
        {there.name: running(there)},
        _TINY,
        rounds=1,
        directory=tmp_path,
        files=tmp_path,
    )
    assert {outcome.failure for outcome in results.outcomes.values()} == {
        "the registry was not started by this benchmark",
        "the process ID of the registry is unknown",
    }
    assert all(outcome.skipped for outcome in results.outcomes.values())
    assert running_registry.ready()
