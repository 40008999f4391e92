"""What brokers and other processes have written about bugs of their own: tracebacks."""

from collections.abc import Iterator
from typing import Final

from harness.penstock.clusters.broker_cluster import BrokerCluster

_SHOWN: Final = 3  # of each process


def bugs_of(cluster: BrokerCluster) -> Iterator[str]:
    """In words, with the line before each traceback, and the error."""
    for broker in cluster.ids:
        yield from bugs_in(f"broker {broker}", cluster.brokers[broker].log())


def bugs_in(who: str, log: str) -> Iterator[str]:
    """The same, of what one process has written."""
    lines = log.splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("Traceback ")]
    for number in at[:_SHOWN]:
        end = next((each for each in lines[number + 1 :] if each[:1].strip()), "")
        before = lines[number - 1] if number else ""
        yield f"{who} has a bug: {before[:200]} … {end[:300]}"
