"""From a load and what it cost to a sample."""

from collections.abc import Callable

from bench.brokers import Broker
from bench.measurement import (
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
from bench.processes import Meter
from bench.raw_producer import Throughput

SMALL = Goal(PEAK_MEMORY, at_most=150)
FASTER = Goal(RATE, ahead=True)
CHEAPER = Goal(CPU_PER_GB, ahead=True)


def metered(broker: Broker, load: Callable[[], Throughput]) -> Sample:
    """Runs the load and says how fast it went and what the broker and the client spent."""
    with Meter(broker.pid) as meter:
        done = load()
    return {
        RATE: done.rate,
        MEGABYTES: done.bytes / done.seconds / 1e6,
        CPU_PER_GB: meter.broker_cpu / done.bytes * 1e9,
        BROKER_CORES: meter.broker_cpu / done.seconds,
        CLIENT_CORES: meter.client_cpu / done.seconds,
        PEAK_MEMORY: meter.peak_bytes / 1e6,
        PROPORTIONAL_MEMORY: meter.proportional_bytes / 1e6,
    }
