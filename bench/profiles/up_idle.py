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
    cpu_before = {name: sum(map(cpu_nanoseconds, pids)) for name, pids in programs.items()}
    start_time = time.monotonic_ns()
    time.sleep(context.scale.idle_seconds)
    elapsed = time.monotonic_ns() - start_time
    percent_by_program = {
        name: (sum(map(cpu_nanoseconds, pids)) - cpu_before[name]) / elapsed * 100
        for name, pids in programs.items()
    }
    megabytes_by_program = {
        name: sum(map(proportional_bytes_of, pids)) / 1e6 for name, pids in programs.items()
    }
    resident_total = sum(resident_bytes_of(pid) for pids in programs.values() for pid in pids)
    figures: dict[Figure, float] = {
        _CORE: sum(percent_by_program.values()),
        _PSS: sum(megabytes_by_program.values()),
        _RESIDENT: resident_total / 1e6,
    }
    for name in sorted(programs):
        figures[Figure(f"{name}: % of a core", 3)] = percent_by_program[name]
        figures[Figure(f"{name}: Pss, MB", 1)] = megabytes_by_program[name]
    return figures


PROFILE = Profile(
    "up-idle",
    "penstock up, with nothing to follow and nobody who asks",
    (Case("idle", _idle, (Goal(_CORE, at_most=1), Goal(_PSS, at_most=400))),),
)
