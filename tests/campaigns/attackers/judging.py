"""What is wrong with a run of attackers, by what was written and what there is in the end. Pure,
and without anything of Penstock's.

    green    a line is lost, altered or there twice, and the verdict is complete, without a loss
             that it shows as accepted
    named    nothing names an attack that took effect: no finding, no fault of signatures, no error
             of a load and no dead letter has its offsets, its lines or its host
    tier     something names it, but none of the tiers where it happened
    stuck    the verdict still waits when all has come to rest, no load has failed, and no attack
             can have stopped the agent or withheld its statements
    red      nobody attacked, and the verdict is not complete
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tests.campaigns.outcomes import Objection

COLLISION: Final = "source and seq of another event"
LEDGER: Final = "ledger"
NOWHERE: Final = (-1, -1)

Span = tuple[int, int]  # first and end

BROKER: Final = ("agent", "broker")
LOADED: Final = ("hdfs",)
BY_LEDGER: Final = (LEDGER, "agent", "broker")
STORED: Final = ("changed", "missing", "duplicated", COLLISION)
SHOWN: Final = ("changed", "missing", "duplicated", "unproven", "load", COLLISION)
SIGNED: Final = ("forged", "altered", "unknown key", "unproven")


class Kind(msgspec.Struct, frozen=True):
    """A kind of attack. `names`: kinds of what names it; `tiers`: where that may say that it
    happened; `stops`: whether the agent may stand still; `withholds`: whether its newest statements
    may be withheld."""

    names: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    stops: bool = False
    withholds: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    # WRITE on the topic. A stolen batch has the place of the agent's: that may find its own absent.
    "forge": Kind(STORED, (*BROKER, *LOADED)),
    "reforge": Kind(STORED, (*BROKER, *LOADED)),
    "steal": Kind(STORED, (*BROKER, *LOADED), stops=True),
    "steal-beside": Kind(STORED, (*BROKER, *LOADED), stops=True),
    # WRITE on `_audit`
    "speak": Kind(SIGNED, BY_LEDGER),
    "intrude": Kind(SIGNED, BY_LEDGER),
    "claim": Kind(("claims another's source",), (LEDGER,)),
    "accept": Kind(),
    "retire": Kind(),
    # The broker stores
    "store-altered": Kind(STORED, BROKER),
    "store-alike": Kind(SHOWN, LOADED),
    "store-reordered": Kind(STORED, BROKER),
    "store-dropped": Kind(STORED, (*BROKER, *LOADED), stops=True),
    "store-repeated": Kind(),
    "store-invented": Kind(STORED, (*BROKER, *LOADED)),
    "store-overruled": Kind(STORED, (*BROKER, *LOADED)),
    # The broker shows the loader
    "show-altered": Kind(SHOWN, LOADED),
    "show-reordered": Kind(SHOWN, LOADED),
    "show-dropped": Kind(SHOWN, LOADED),
    "show-repeated": Kind(SHOWN, LOADED),
    "show-invented": Kind(SHOWN, LOADED),
    "show-restated": Kind(SHOWN, LOADED),
    "show-unstated": Kind((*SHOWN, "wait"), LOADED, withholds=True),
    "show-untold": Kind(SHOWN, LOADED, withholds=True),
    # The broker shows the audit
    "entries-hidden": Kind(SIGNED, BY_LEDGER, withholds=True),
    "entries-altered": Kind(SIGNED, BY_LEDGER, withholds=True),
    "entries-repeated": Kind(withholds=True),
    "entries-reordered": Kind(withholds=True),
    "entries-invented": Kind(SIGNED, BY_LEDGER, withholds=True),
}


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """`effective`: it has the place of something of the agent's, in a log or a journal. `offsets`
    and `seqs` say where; `host` is the one whose journal it is about."""

    verb: str
    effective: bool
    source: str = ""
    seqs: Span = NOWHERE
    offsets: Span = NOWHERE
    host: str = ""


class Name(msgspec.Struct, frozen=True, kw_only=True):
    """What names something that is wrong."""

    kind: str
    tier: str
    host: str = ""
    source: str = ""
    seqs: Span = NOWHERE
    offsets: Span = NOWHERE
    accepted: bool = False
    words: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """All that was written, in order, and all there is."""

    lines: Sequence[str]
    rows: Sequence[str]
    state: str
    names: Sequence[Name] = ()
    waits: Sequence[str] = ()
    attacks: Sequence[Attack] = ()


def names_of(end: End, attack: Attack) -> list[Name]:
    """What names an attack, wherever that says that it happened."""
    return [
        name
        for name in end.names
        if name.kind in KINDS[attack.verb].names and _is_about(name, attack)
    ]


def is_named(end: End, attack: Attack) -> bool:
    return attack.effective and bool(names_of(end, attack))


def tiers_of(end: End, attack: Attack) -> set[str]:
    """Those of the tiers at which it happened that are named."""
    return {name.tier for name in names_of(end, attack)}.intersection(KINDS[attack.verb].tiers)


def judge(end: End) -> Iterator[Objection]:
    yield from _lost_under_green(end)
    kinds = [KINDS[attack.verb] for attack in end.attacks]
    may_wait = any(kind.stops or kind.withholds for kind in kinds)
    has_failed = any(name.kind == "load" for name in end.names)
    if end.state == "pending" and not may_wait and not has_failed:
        yield Objection("stuck", "; ".join(end.waits)[:300])
    there = sorted({f"{name.kind} at {name.tier}" for name in end.names})
    for attack in end.attacks:
        if not attack.effective or _is_without_effect(end, attack):
            continue
        if not names_of(end, attack):
            yield Objection("named", f"{attack.verb}: there is {there}")
        elif not tiers_of(end, attack):
            yield Objection("tier", f"{attack.verb}: there is {there}")
    if not end.attacks and end.state not in {"complete", "pending"}:
        yield Objection("red", f"{end.state}: {[name.words for name in end.names]}")


def _lost_under_green(end: End) -> Iterator[Objection]:
    """A line's number is its seq, since the agent ships one file."""
    rows = Counter(end.rows)
    accepted = _accepted(end)
    wrong = [
        line for number, line in enumerate(end.lines) if rows[line] != 1 and number not in accepted
    ]
    if end.state == "complete" and wrong:
        lost = sum(not rows[line] for line in wrong)
        words = f"{lost} lines are lost, {len(wrong) - lost} are there twice: {wrong[:3]}"
        yield Objection("green", words)


def _accepted(end: End) -> set[int]:
    """The numbers of the lines that accepted faults name, by themselves or by their offsets."""
    spans = [name.seqs for name in end.names if name.accepted]
    spans += [
        attack.seqs
        for name in end.names
        for attack in end.attacks
        if name.accepted and _overlap(name.offsets, attack.offsets)
    ]
    return {number for first, after in spans for number in range(max(first, 0), after)}


def _is_without_effect(end: End, attack: Attack) -> bool:
    """Whether it could not come to anything: an agent that was stopped comes to none of the numbers
    that others have taken; and where a load stands at earlier offsets, nothing has landed."""
    if end.state == "complete":
        return False
    stops = any(KINDS[other.verb].stops for other in end.attacks)
    failures = [name.offsets[0] for name in end.names if name.kind == "load"]
    is_behind = any(0 <= at < attack.offsets[0] for at in failures) and end.state == "pending"
    return is_behind or (stops and not set(end.lines) <= set(end.rows))


def totals(ends: Sequence[End]) -> Iterator[str]:
    """A row for each kind of attack."""
    yield f"    {'attack':<18} {'runs':>5} {'effect':>7} {'named':>6}  tiers; verdicts"
    for verb in KINDS:
        pairs = [(end, attack) for end in ends for attack in end.attacks if attack.verb == verb]
        tiers = Counter(tier for end, attack in pairs for tier in sorted(tiers_of(end, attack)))
        states = Counter(end.state for end, _ in pairs)
        effective = sum(attack.effective for _, attack in pairs)
        named = sum(is_named(end, attack) for end, attack in pairs)
        yield (
            f"    {verb:<18} {len(pairs):>5} {effective:>7} {named:>6}"
            f"  {_counted(tiers)}; {_counted(states)}"
        )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "-"


def _is_about(name: Name, attack: Attack) -> bool:
    has_lines = name.source == attack.source != "" and _overlap(name.seqs, attack.seqs)
    has_host = bool(attack.host) and name.host == attack.host
    return has_lines or _overlap(name.offsets, attack.offsets) or has_host


def _overlap(one: Span, other: Span) -> bool:
    return max(one[0], other[0], 0) < min(one[1], other[1])
