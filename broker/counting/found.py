"""What the counting process has found since the broker started: damage, and how far it has looked.

Written by the event loop, read by whoever shows it. The ledger has it, too; this is for those who
look at the broker.
"""

import logging
from collections import Counter
from typing import Final

from broker.counting.reports import Damaged, Looked

_MOST: Final = 100  # that are shown one by one

log = logging.getLogger(__name__)


class Found:
    """Of one run of the broker."""

    def __init__(self) -> None:
        self.damaged: list[Damaged] = []
        self.damaged_batches: Counter[tuple[str, int]] = Counter()
        self.scrubbed_bytes = 0
        self.scrubbed_millis = -1

    def note(self, looked: Looked) -> None:
        """An answer has come."""
        for each in looked.damaged:
            if any(each[:4] == known[:4] for known in self.damaged):
                continue  # read again, and still so
            self.damaged_batches[each.topic, each.partition] += 1
            self.damaged = [*self.damaged, each][-_MOST:]
            log.error(
                "damaged batch topic=%s partition=%d first_offset=%d offsets=%d reason=%r", *each
            )
        self.scrubbed_bytes += looked.scrubbed_bytes
        self.scrubbed_millis = max(self.scrubbed_millis, looked.scrubbed_millis)

    @property
    def remarks(self) -> list[str]:
        """For people, a line each."""
        return [
            f"damaged: {each.topic}-{each.partition}, messages {each.first:,} to "
            f"{each.first + each.offsets - 1:,}: {each.reason}"
            for each in self.damaged
        ]
