"""What is wrong with two logs of which one should be the copy of the other, by rules on values.
Pure, and without any of the mirror's code.

    spoilt      a batch of the copy has a wrong CRC
    invented    the copy has a batch at offsets where the source never had one
    changed     the copy has a batch that is not, byte for byte but for the leader epoch, what the
                source has had there
    missing     the source has a batch that the copy does not have
    hole        the copy's offsets do not follow each other where the source's do
    replicas    two brokers of the target have different bytes
    beyond      at a gap the copy has grown
    back        at a gap, or anywhere, the copy has lost what it had
    silent      at a gap, no mirror has said which topic, and where both ends are
    stuck       all is healed, and the copy did not come to rest, or a cluster did not
    trouble     a broker or a mirror ended by itself, or has written a traceback
    nothing     there was nothing to copy: the run shows nothing
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import msgspec

from tests.campaigns.logs import Batch, Replica
from tests.campaigns.outcomes import Objection

Place = tuple[str, int]
"""A partition, by the name of its topic at the source."""


class Gap(msgspec.Struct, frozen=True):
    """Made on purpose: what the copy needs next is not at the source any more."""

    topic: str
    partition: int
    copied: int  # where the copy's log ended
    ends: tuple[str, ...]  # at the source, of which the mirror must name one,
    why: str
    here: tuple[str, ...] = ()  # and one of these, or where the copy's log ended


@dataclass(frozen=True)
class Copy:
    """A partition at both clusters when all has come to rest."""

    source: Sequence[Batch]
    replicas: Sequence[Replica]
    before: Sequence[Batch] = ()
    """What the source had before something of it was taken away."""
    gap: Gap | None = None

    @cached_property
    def ever_had(self) -> Mapping[int, frozenset[bytes]]:
        """By first offset, what has been there at the source."""
        found: dict[int, set[bytes]] = {}
        for each in (*self.before, *self.source):
            found.setdefault(each.first, set()).add(each.same)
        return {first: frozenset(each) for first, each in found.items()}

    @property
    def target(self) -> Sequence[Batch]:
        """The longest; whether the others are the same is a rule of its own."""
        return max((each.batches for each in self.replicas), key=len, default=())


class Case(msgspec.Struct, frozen=True):
    copies: Mapping[Place, Copy]
    said: str = ""
    """All that mirrors have said: their output, and their pages."""
    troubles: Sequence[str] = msgspec.field(default_factory=tuple)


def judge(case: Case) -> list[Objection]:
    """Everything that is wrong."""
    found = [
        Objection(rule, f"{topic}: {words}", partition)
        for (topic, partition), copy in case.copies.items()
        for rule, of_copy in RULES.items()
        for words in of_copy(copy)
    ]
    found += [
        Objection("silent", f"{copy.gap.topic}: {words}", copy.gap.partition)
        for copy in case.copies.values()
        if copy.gap is not None
        for words in _silent(copy.gap, case.said)
    ]
    if not any(copy.target for copy in case.copies.values()):
        found.append(Objection("nothing", "no partition of the target has a batch"))
    for each in case.troubles:
        rule, _, words = each.partition(": ")
        found.append(Objection(rule, words))
    return found


def _spoilt(copy: Copy) -> Iterator[str]:
    for each in copy.target:
        if not each.is_whole:
            yield f"{each}: the CRC is wrong"


def _invented(copy: Copy) -> Iterator[str]:
    for each in copy.target:
        if each.first not in copy.ever_had:
            yield f"{each}: the source never had a batch that begins there"


def _changed(copy: Copy) -> Iterator[str]:
    for each in copy.target:
        had = copy.ever_had.get(each.first)
        if had is not None and each.same not in had:
            yield f"{each}: the source had other bytes there"


def _missing(copy: Copy) -> Iterator[str]:
    if copy.gap is not None:
        return
    copied = {each.first: each.same for each in copy.target}
    for each in copy.source:
        if copied.get(each.first) != each.same:
            yield f"{each}: it is at the source, and not in the copy"


def _hole(copy: Copy) -> Iterator[str]:
    """Compaction leaves holes, which the copy may have as well."""
    known = {
        (one.last, other.first)
        for log in (copy.source, copy.before)
        for one, other in pairwise(log)
    }
    for one, other in pairwise(copy.target):
        if other.first != one.last + 1 and (one.last, other.first) not in known:
            yield f"after {one} come {other}"


def _replicas(copy: Copy) -> Iterator[str]:
    """Where retention has taken segments it may have taken more of one: they are compared where
    both are."""
    for one, other in pairwise(copy.replicas):
        if one.end != other.end:
            yield f"broker {one.broker} ends at {one.end}, broker {other.broker} at {other.end}"
            continue
        begins = max((each.batches[0].first for each in (one, other) if each.batches), default=0)
        differing = set(_from(begins, one)) ^ set(_from(begins, other))
        if differing:
            first = min(differing, key=lambda each: each.first)
            yield f"brokers {one.broker} and {other.broker} differ from {first} on"


def _from(begins: int, replica: Replica) -> Iterator[Batch]:
    return (each for each in replica.batches if each.first >= begins)


def _beyond(copy: Copy) -> Iterator[str]:
    end = _end(copy.target)
    if copy.gap is not None and end > copy.gap.copied:
        yield f"{copy.gap.why}: the copy ended at {copy.gap.copied}, and ends at {end} now"


def _back(copy: Copy) -> Iterator[str]:
    end = _end(copy.target)
    if copy.gap is not None and end < copy.gap.copied:
        yield f"{copy.gap.why}: the copy ended at {copy.gap.copied}, and ends at {end} now"


def _end(batches: Sequence[Batch]) -> int:
    return batches[-1].last + 1 if batches else 0


def _silent(gap: Gap, said: str) -> Iterator[str]:
    if not names_both_ends(gap, said):
        yield (
            f"{gap.why}: the copy ended at {gap.copied}, the source is at "
            f"{' or '.join(gap.ends)}; nobody has named both"
        )


def names_both_ends(gap: Gap, said: str) -> bool:
    """Whether one line has the topic's name and both ends."""
    for line in said.splitlines():
        words = set(re.findall(r"[A-Za-z0-9_-]+", line))
        here = {str(gap.copied), *gap.here}
        if gap.topic in line and not words.isdisjoint(here) and not words.isdisjoint(gap.ends):
            return True
    return False


RULES: Final[Mapping[str, Callable[[Copy], Iterator[str]]]] = {
    "spoilt": _spoilt,
    "invented": _invented,
    "changed": _changed,
    "missing": _missing,
    "hole": _hole,
    "replicas": _replicas,
    "beyond": _beyond,
    "back": _back,
}
