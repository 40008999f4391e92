"""The cost of an idle `penstock up`: processor time and memory of all its processes.

Memory has two figures: Pss divides shared pages among the processes, so its sum is what the machine
needs; the sum of resident sizes counts shared pages for each process, as `top` shows them.
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
    elapsed = time.monotonic_ns() - began
    cores_percent = {
        name: (sum(map(cpu_nanoseconds, pids)) - before[name]) / elapsed * 100
        for name, pids in programs.items()
    }
    pss = {name: sum(map(proportional_bytes_of, pids)) / 1e6 for name, pids in programs.items()}
    resident = sum(resident_bytes_of(pid) for pids in programs.values() for pid in pids)
    figures: dict[Figure, float] = {
        _CORE: sum(cores_percent.values()),
        _PSS: sum(pss.values()),
        _RESIDENT: resident / 1e6,
    }
    for name in sorted(programs):
        figures[Figure(f"{name}: % of a core", 3)] = cores_percent[name]
        figures[Figure(f"{name}: Pss, MB", 1)] = pss[name]
    return figures


PROFILE = Profile(
    "up-idle",
    "penstock up, with nothing to follow and nobody who asks",
    (Case("idle", _idle, (Goal(_CORE, at_most=1), Goal(_PSS, at_most=400))),),
)
