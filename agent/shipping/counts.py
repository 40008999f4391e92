"""What shipping counts, for metrics: since the process began, by topic."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class TopicCounts:
    """Written by the shipping thread, read by any."""

    batches: int = 0  # acknowledged
    events: int = 0  # acknowledged
    bytes: int = 0  # acknowledged, as they were sent
    retries: int = 0  # failures after which something was sent again
    replaced: int = 0  # batches that were refused, and cured
    last_error: str = ""  # until something is acknowledged


@dataclass(slots=True)
class Counts:
    topics: dict[str, TopicCounts] = field(default_factory=lambda: defaultdict(TopicCounts))
