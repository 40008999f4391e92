"""What is wrong with a run of attackers, by what was written and what there is in the end. Pure,
and without anything of Penstock's.

    green    a line is lost, altered or there twice, and the verdict is complete
    named    an attack that took the place of something is neither in the verdict nor among the dead
             letters
    stuck    the verdict still waits when all has come to rest, and no producer id was stolen: an
             agent whose numbers were taken may stand still
    red      nobody attacked, and the verdict is not complete
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from tests.campaigns.outcomes import Objection

COLLISION = "source and seq of another event"


class Attack(msgspec.Struct, frozen=True):
    """`effective`: the broker took it, and it has the place of something of the agent's."""

    verb: str
    effective: bool
    names: tuple[str, ...]  # kinds of findings that name it


class End(msgspec.Struct, frozen=True, kw_only=True):
    """All that was written, in order, and all there is."""

    lines: Sequence[str]
    rows: Sequence[str]
    dead: Sequence[str]  # reasons
    state: str
    kinds: Sequence[str]  # of findings
    waits: Sequence[str]
    attacks: Sequence[Attack]


def is_named(end: End, attack: Attack) -> bool:
    """A finding or a dead letter names what took effect."""
    return attack.effective and not {*end.kinds, *end.dead}.isdisjoint(attack.names)


def judge(end: End) -> Iterator[Objection]:
    rows = Counter(end.rows)
    lost = [line for line in end.lines if not rows[line]]
    twice = [line for line in end.lines if rows[line] > 1]
    if end.state == "complete" and (lost or twice):
        yield Objection("green", f"{len(lost)} lines are lost, {len(twice)} twice: {lost[:3]}")
    stolen = any(each.verb.startswith("steal") for each in end.attacks)
    if end.state == "pending" and not stolen:
        yield Objection("stuck", "; ".join(end.waits)[:300])
    found = {*end.kinds, *end.dead}
    # An agent whose producer's numbers were taken may stand still. Its lines are not lost then, and
    # it comes to none of the numbers that others have written in its journal.
    stands = stolen and bool(lost) and end.state != "complete"
    for attack in end.attacks:
        if attack.effective and not stands and not is_named(end, attack):
            yield Objection("named", f"{attack.verb}: the verdict has {sorted(found)}")
    if not end.attacks and end.state not in {"complete", "pending"}:
        yield Objection("red", f"{end.state}: {sorted(found)}")
