"""What `penstock up` costs while nothing happens: processor time and memory, of all its processes.

Memory is counted twice: Pss, in which pages that several processes share are divided among them, so
that the sum is what the machine has to have; and resident sizes, whose sum counts such pages again
for each process, as `top` shows them.
"""

import time

from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.processes import cpu_nanoseconds, proportional_bytes_of, resident_bytes_of
from bench.figures.profile import Case, CaseContext, Profile
from bench.servers.whole_pipelines import WholePipeline

_CORE = Figure("% of a core", 2)
_PSS = Figure("Pss, MB")
_RESIDENT = Figure("resident, MB")


def _idle(context: CaseContext) -> Sample:
    pipeline = context.server
    assert isinstance(pipeline, WholePipeline)
    time.sleep(context.scale.settling_seconds)
    programs = pipeline.programs
    before = {name: sum(map(cpu_nanoseconds, pids)) for name, pids in programs.items()}
    began = time.monotonic_ns()
    time.sleep(context.scale.idle_seconds)
    took = time.monotonic_ns() - began
    spent = {
        name: (sum(map(cpu_nanoseconds, pids)) - before[name]) / took * 100
        for name, pids in programs.items()
    }
    shares = {name: sum(map(proportional_bytes_of, pids)) / 1e6 for name, pids in programs.items()}
    resident = sum(resident_bytes_of(pid) for pids in programs.values() for pid in pids)
    figures: dict[Figure, float] = {
        _CORE: sum(spent.values()),
        _PSS: sum(shares.values()),
        _RESIDENT: resident / 1e6,
    }
    for name in sorted(programs):
        figures[Figure(f"{name}: % of a core", 3)] = spent[name]
        figures[Figure(f"{name}: Pss, MB", 1)] = shares[name]
    return figures


PROFILE = Profile(
    "up-idle",
    "penstock up, with nothing to follow and nobody who asks",
    (Case("idle", _idle, (Goal(_CORE, at_most=1), Goal(_PSS, at_most=400))),),
)
