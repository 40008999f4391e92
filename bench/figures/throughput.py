"""Samples of the throughput and cost of a load."""

from collections.abc import Callable
from typing import Protocol

from bench.figures.measurement import (
    BROKER_CORES,
    CLIENT_CORES,
    CPU_PER_GB,
    MEGABYTES,
    PEAK_MEMORY,
    PROPORTIONAL_MEMORY,
    RATE,
    Goal,
    Sample,
)
from bench.figures.processes import Meter
from bench.loads.raw_producer import Throughput

SMALL = Goal(PEAK_MEMORY, at_most=150)
FASTER = Goal(RATE, ahead=True)
CHEAPER = Goal(CPU_PER_GB, ahead=True)


class Brokers(Protocol):
    """The broker or cluster under load."""

    @property
    def pids(self) -> tuple[int, ...]: ...


def metered(brokers: Brokers, load: Callable[[], Throughput]) -> Sample:
    """Runs the load; returns its speed, and the cost for brokers and clients."""
    with Meter(*brokers.pids) as meter:
        throughput = load()
    return {
        RATE: throughput.rate,
        MEGABYTES: throughput.bytes / throughput.seconds / 1e6,
        CPU_PER_GB: meter.broker_cpu / throughput.bytes * 1e9,
        BROKER_CORES: meter.broker_cpu / throughput.seconds,
        CLIENT_CORES: meter.client_cpu / throughput.seconds,
        PEAK_MEMORY: meter.peak_bytes / 1e6,
        PROPORTIONAL_MEMORY: meter.proportional_bytes / 1e6,
    }
