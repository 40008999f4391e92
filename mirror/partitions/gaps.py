"""Gaps between a copy's end and the source's next batch: what the source deleted before it was
copied. Pure.

The mirror refuses a gap (`Gap.is_refused`), so the partition stops, until an operator accepts it:
the topic's config `penstock.mirror.accept.gap` at the target names the accepted gaps, and the
broker there rejects all others (`broker.storage.mirrored_batches`).
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_GAPS: Final = re.compile(r"(\d{1,6}):(\d{1,19})-(\d{1,19})")


class Gap(msgspec.Struct, frozen=True):
    """The copy ends at `end`, and the source's next batch begins at `begins`."""

    end: int
    begins: int

    def __str__(self) -> str:
        return f"{self.end}-{self.begins}"

    def is_refused(self, *, accepted: int | None, may_pass: bool) -> bool:
        """Whether the partition stops at the gap. `accepted`: a gap at this end of the copy may be
        skipped; `may_pass`: any gap may."""
        return not may_pass and accepted != self.end

    def refusal(self) -> str:
        """The reason with which the partition stops."""
        return (
            f"gap: the copy ends at {self.end}, the source's next batch begins at {self.begins}: "
            "the source has deleted the messages between. `penstock mirror --accept-gap` skips "
            "them"
        )


def gaps_of(text: str) -> dict[int, Gap]:
    """Parses `penstock.mirror.accept.gap` into gaps by partition."""
    gaps = {}
    for part in text.split(","):
        match = _GAPS.fullmatch(part.strip())
        if match:
            gaps[int(match[1])] = Gap(int(match[2]), int(match[3]))
    return gaps


def gaps_text(gaps: Mapping[int, Gap]) -> str | None:
    """The value of `penstock.mirror.accept.gap` for these gaps; None if there are none."""
    return ",".join(f"{partition}:{gap}" for partition, gap in sorted(gaps.items())) or None
