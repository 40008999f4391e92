"""Figures about log shippers and their costs."""

from bench.figures.measurement import Figure
from bench.figures.processes import Meter

LINES_PER_SECOND = Figure("lines/s", more_is_better=True)
CPU_PER_MILLION = Figure("CPU-s per million lines", 2)
CORES = Figure("cores in use", 3)
PEAK = Figure("peak RSS, MB", 1)
PROPORTIONAL = Figure("Pss, MB", 1)
LOG_BYTES = Figure("bytes a line in the topic", 1)


def spent(meter: Meter, *, lines: int, seconds: float) -> dict[Figure, float]:
    return {
        CPU_PER_MILLION: meter.broker_cpu / lines * 1e6,
        CORES: meter.broker_cpu / seconds,
        **memory(meter),
    }


def memory(meter: Meter) -> dict[Figure, float]:
    return {PEAK: meter.peak_bytes / 1e6, PROPORTIONAL: meter.proportional_bytes / 1e6}
