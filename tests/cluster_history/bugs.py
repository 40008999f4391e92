"""What brokers have written about bugs of their own: tracebacks."""

from collections.abc import Iterator
from typing import Final

from harness.broker_cluster import BrokerCluster

_SHOWN: Final = 3  # of each broker


def bugs_of(cluster: BrokerCluster) -> Iterator[str]:
    """In words, with the line before each traceback, and the error."""
    for broker in cluster.ids:
        lines = cluster.brokers[broker].log().splitlines()
        at = [number for number, line in enumerate(lines) if line.startswith("Traceback ")]
        for number in at[:_SHOWN]:
            end = next((each for each in lines[number + 1 :] if each[:1].strip()), "")
            before = lines[number - 1] if number else ""
            yield f"broker {broker} has a bug: {before[:200]} … {end[:300]}"
