"""What is proven, pending or forged in a journal, against a model that knows who wrote what."""

import hashlib
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from ground.signatures.keys import PublicKey, SigningKey
from ledger.examination import (
    MOST_AHEAD,
    Examined,
    FirstUse,
    JournalState,
    ProofFault,
    ProofFaultKind,
    Rows,
    Standing,
    Verdict,
    examined,
    examined_quickly,
)
from ledger.proofs import NO_HEAD, Chain, Proof
from ledger.source_ids import journal_id

KEYS: Final = [SigningKey.new() for _ in range(3)]
OWNER, OTHER, THIEF = KEYS
ALTERED, FORGED = ProofFaultKind.ALTERED, ProofFaultKind.FORGED
SEEDS: Final = range(120)


class Entry(NamedTuple):
    """One record of the ledger. `value` stands for its bytes."""

    seq: int
    value: bytes
    proof: bytes | None = None
    is_agent: bool = True
    has_beats: bool = False

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.value).digest()


class Reader:
    """Reads a journal in portions, and keeps what a store would."""

    def __init__(self, journal: str = "j", trust: FirstUse | None = None) -> None:
        self.journal = journal
        self.trust = trust or FirstUse()
        self.state: JournalState | None = None
        self.folded: dict[int, bytes] = {}
        self.verdicts: list[tuple[Entry, Verdict]] = []
        self.faults: list[ProofFault] = []

    def read(self, entries: Sequence[Entry]) -> list[Verdict]:
        result = self._examined(entries)
        self.state = result.state
        self.faults += result.faults
        for entry, verdict in zip(entries, result.verdicts, strict=True):
            self.verdicts.append((entry, verdict))
            if verdict is Verdict.DISPLACING:
                self.folded[entry.seq] = entry.value
            elif verdict.is_believed:
                self.folded.setdefault(entry.seq, entry.value)
        return result.verdicts

    def _examined(self, entries: Sequence[Entry]) -> Examined:
        rows = Rows(
            [entry.seq for entry in entries],
            [entry.digest for entry in entries],
            [entry.proof for entry in entries],
            [entry.is_agent for entry in entries],
            [entry.is_agent and not entry.has_beats for entry in entries],
            ["host"] * len(entries),
            [1000 + entry.seq for entry in entries],
            [1000 + entry.seq for entry in entries],
        )

        def standing(index: int) -> Standing:
            value = self.folded.get(entries[index].seq)
            if value is None:
                return Standing.NEW
            return Standing.SAME if value == entries[index].value else Standing.OTHER

        indexes = range(len(entries))
        if self.state is not None:
            result = examined_quickly(self.state, rows, indexes, self.trust)
            if result is not None:
                return result
        return examined(
            self.journal, self.state, rows, indexes, standing=standing, trust=self.trust
        )

    def altered(self) -> set[int]:
        return {
            seq
            for fault in self.faults
            if fault.kind is ALTERED
            for seq in range(fault.first, fault.end)
        }


def written(
    count: int, chance: random.Random, *, is_agent: bool = True, key: SigningKey = OWNER
) -> list[Entry]:
    """A journal as its owner writes it; the first entry is signed."""
    chain = Chain(key)
    entries: list[Entry] = []
    for seq in range(count):
        value = b"%d %d" % (seq, chance.getrandbits(60))
        if not is_agent or not seq or chance.random() < 0.4:
            proof = chain.prove(value, seq * 900.0).encoded
            entries.append(Entry(seq, value, proof, is_agent, is_agent))
        else:
            chain.add(value)
            entries.append(Entry(seq, value, None, is_agent))
    return entries


def portions(entries: Sequence[Entry], chance: random.Random) -> list[Sequence[Entry]]:
    borders = sorted(chance.sample(range(1, len(entries)), chance.randint(0, len(entries) // 3)))
    ends = zip([0, *borders], [*borders, len(entries)], strict=True)
    return [entries[first:end] for first, end in ends]


def read_in(
    groups: Sequence[Sequence[Entry]], *, journal: str = "j", trust: FirstUse | None = None
) -> Reader:
    reader = Reader(journal, trust)
    for group in groups:
        reader.read(group)
    return reader


def signed_forgery(entry: Entry, chance: random.Random) -> Entry:
    """An entry in the place of another one that needs or has a signature."""
    value = b"forged %d" % chance.getrandbits(60)
    own = Proof.decode(entry.proof or b"")
    previous = NO_HEAD if own is None else own.previous
    signature = own.signature if own is not None else chance.randbytes(64)
    by_thief = Chain(THIEF, previous).prove(value, 0.0)
    proofs = [
        Proof(previous, signature),  # of the true entry
        Proof(previous, chance.randbytes(64)),
        Proof(chance.randbytes(32), chance.randbytes(64), OWNER.public),
        Proof(by_thief.previous, by_thief.signature),
        by_thief,
    ]
    proof = chance.choice(proofs).encoded
    stripped = Entry(entry.seq, chance.choice([entry.value, value]), None, True, True)
    return chance.choice([Entry(entry.seq, value, proof, entry.is_agent, True), stripped])


def unsigned_forgery(entry: Entry, chance: random.Random) -> Entry:
    seq = entry.seq + chance.choice([0, 0, 0, 1, 2, 900, MOST_AHEAD * 2, 10**9])
    return Entry(seq, b"invented %d" % chance.getrandbits(60), None)


def attacked(
    entries: list[Entry], chance: random.Random, *, with_unsigned: bool, dropped: bool
) -> list[Entry]:
    """What a ledger holds after somebody else wrote to it, too. The first entry is the owner's."""
    result = entries[:1]
    for entry in entries[1:]:
        fate = chance.random()
        if fate < 0.1:
            result.append(signed_forgery(entry, chance))
        elif fate < 0.2 and with_unsigned:
            result.append(unsigned_forgery(entry, chance))
        elif fate < 0.25 and dropped:
            continue
        elif fate < 0.3:
            result.append(chance.choice(result))
        result.append(entry)
        if fate > 0.95:
            result.append(signed_forgery(chance.choice(entries), chance))
        if 0.9 < fate < 0.93 and len(result) > 3:
            result[-2:] = result[:-3:-1]
    return result


@pytest.mark.parametrize("is_agent", [True, False])
def test_a_whole_journal_is_proven_up_to_its_newest_signature(is_agent: bool) -> None:
    for seed in SEEDS:
        chance = random.Random(seed)
        entries = written(chance.randint(2, 30), chance, is_agent=is_agent)
        reader = read_in(portions(entries, chance))
        assert reader.faults == [], seed
        newest = max(entry.seq for entry in entries if entry.proof)
        assert reader.state is not None
        assert reader.state.end == newest + 1, seed
        assert sorted(reader.state.loose) == [entry.seq for entry in entries[newest + 1 :]]
        assert reader.folded == {entry.seq: entry.value for entry in entries}


def test_what_others_write_is_never_proven_and_what_was_believed_of_it_is_named() -> None:
    invented = displaced = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        entries = written(chance.randint(5, 40), chance)
        true_values = {entry.seq: entry.value for entry in entries}
        ledger = attacked(entries, chance, with_unsigned=True, dropped=chance.random() < 0.5)
        # What the owner writes at the end is not disturbed.
        reader = read_in(portions(ledger, chance))
        for entry, verdict in reader.verdicts:
            if verdict in {Verdict.PROVEN, Verdict.DISPLACING}:
                assert entry.value == true_values.get(entry.seq), (seed, entry)
            displaced += verdict is Verdict.DISPLACING
        assert reader.state is not None
        open_numbers = {seq for gap in reader.state.open for seq in range(gap.first, gap.end)}
        for seq, value in reader.folded.items():
            if value != true_values.get(seq):
                is_open = seq >= reader.state.end or seq in open_numbers
                assert is_open or seq in reader.altered(), (seed, seq)
                invented += 1
        for entry in ledger:
            if entry in entries and entry.proof:
                assert reader.folded[entry.seq] == entry.value, (seed, entry.seq)
    assert invented > 50
    assert displaced > 3


@pytest.mark.parametrize("is_agent", [True, False])
def test_the_borders_of_portions_change_nothing(is_agent: bool) -> None:
    holes = forged = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        entries = written(chance.randint(5, 40), chance, is_agent=is_agent)
        ledger = attacked(entries, chance, with_unsigned=False, dropped=True)
        readers = [read_in([ledger]), read_in([[entry] for entry in ledger])]
        readers.append(read_in(portions(ledger, chance)))
        one = readers[0]
        for other in readers[1:]:
            assert other.folded == one.folded, seed
            assert other.state == one.state, seed
            assert other.altered() == one.altered(), seed
        true_values = {entry.seq: entry.value for entry in entries}
        assert one.folded.items() <= true_values.items(), seed
        assert not one.altered(), seed
        holes += len(true_values) - len(one.folded)
        forged += sum(fault.kind is FORGED for fault in one.faults)
    assert holes > 50
    assert forged > 50


def test_reading_again_from_the_beginning_changes_nothing() -> None:
    for seed in SEEDS:
        chance = random.Random(seed)
        entries = written(chance.randint(5, 40), chance)
        ledger = attacked(entries, chance, with_unsigned=False, dropped=True)
        reader = read_in(portions(ledger, chance))
        folded, state, altered = dict(reader.folded), reader.state, reader.altered()
        faults = {fault._replace(row=0) for fault in reader.faults}
        for portion in portions(ledger, chance):
            reader.read(portion)
        assert (reader.folded, reader.altered()) == (folded, altered), seed
        assert reader.state == state, seed
        assert {fault._replace(row=0) for fault in reader.faults} >= faults


@pytest.mark.parametrize("change", ["replaced", "invented in its place", "removed"])
def test_a_stretch_that_the_chain_does_not_cover_is_altered(change: str) -> None:
    chain = Chain(OWNER)
    values = [b"0", b"1", b"2", b"3"]
    first = Entry(0, values[0], chain.prove(values[0], 0.0).encoded, has_beats=True)
    for value in values[1:3]:
        chain.add(value)
    last = Entry(3, values[3], chain.prove(values[3], 1.0).encoded, has_beats=True)
    replaced = [Entry(1, b"other"), Entry(2, values[2])]
    if change == "removed":  # and what follows numbered anew
        replaced = [Entry(1, values[2]), Entry(2, b"more")]
    elif change == "invented in its place":
        replaced = [Entry(1, b"other"), Entry(1, values[1]), Entry(2, values[2])]
    one = read_in([[first], replaced[:1], replaced[1:], [last]])
    assert one.altered() == ({1} if change == "invented in its place" else {1, 2})
    (fault,) = [fault for fault in one.faults if fault.kind is ALTERED]
    assert (fault.since, fault.until) == (1000, 1003)
    # Together with the proof, the true entries are told from the others.
    together = read_in([[first, *replaced, last]])
    if change == "invented in its place":
        assert (together.altered(), together.folded[1]) == (set(), values[1])
        assert [fault.kind for fault in together.faults] == [FORGED]
    else:
        assert together.altered() == {1, 2}


def test_an_entry_without_a_proof_after_the_last_one_of_a_hole_is_proven_when_it_is_filled() -> (
    None
):
    entries = written(1, random.Random(1))
    chain = Chain(OWNER, Chain(OWNER).head)
    chain.add(entries[0].value)
    values = [b"a", b"b", b"c"]
    for value in values[:2]:
        chain.add(value)
    last = Entry(3, values[2], chain.prove(values[2], 0.0).encoded, has_beats=True)
    reader = read_in([entries, [Entry(2, b"b")], [last]])
    assert reader.state is not None
    assert [(gap.first, gap.end) for gap in reader.state.open] == [(1, 3)]
    assert reader.read([Entry(1, b"a")]) == [Verdict.PROVEN]
    assert (reader.state.open, reader.state.loose, reader.faults) == ((), {}, [])


def test_an_unsigned_entry_under_a_proven_number_is_forged() -> None:
    entries = written(12, random.Random(3))
    reader = read_in([entries])
    assert reader.read([Entry(2, b"late")]) == [Verdict.FORGED]
    assert reader.read([Entry(13 + MOST_AHEAD, b"far ahead")]) == [Verdict.FORGED]
    assert reader.read([Entry(12, b"beats", None, True, True)]) == [Verdict.FORGED]
    assert reader.read([Entry(12, b"loader", None, False)]) == [Verdict.FORGED]


def test_a_journal_without_a_key_is_unsigned_until_its_first_proof() -> None:
    reader = read_in([[Entry(0, b"a"), Entry(1, b"b", None, True, True)]])
    assert [verdict for _, verdict in reader.verdicts] == [Verdict.UNSIGNED] * 2
    assert reader.state is None
    bad = Proof(NO_HEAD, bytes(64), OWNER.public).encoded
    assert reader.read([Entry(2, b"c", bad)]) == [Verdict.FORGED]
    proof = Chain(OWNER).prove(b"c", 0.0).encoded
    assert reader.read([Entry(2, b"c", proof)]) == [Verdict.PROVEN]
    assert reader.read([Entry(3, b"d", None, True, True)]) == [Verdict.FORGED]


def test_a_key_that_is_not_the_journals_is_unknown() -> None:
    reader = read_in([written(4, random.Random(1))])
    seq = 4
    other = Entry(seq, b"x", Chain(OTHER).prove(b"x", 0.0).encoded, has_beats=True)
    assert reader.read([other]) == [Verdict.UNKNOWN_KEY]
    assert reader.faults[-1].kind is ProofFaultKind.UNKNOWN_KEY
    assert reader.faults[-1].key == OTHER.public.raw
    assert seq not in reader.folded


def test_a_journal_named_for_a_key_is_signed_by_no_other() -> None:
    name = journal_id(OWNER.public)
    stolen = written(3, random.Random(1), key=THIEF)
    reader = read_in([stolen], journal=name)
    assert reader.verdicts[0][1] is Verdict.PROVEN  # as long as the owner has not written
    entries = written(6, random.Random(2))
    reader.read(entries[:1])
    assert reader.state is not None
    assert reader.state.key == OWNER.public.raw
    assert 0 in reader.altered()
    reader.read(entries[1:])
    assert reader.read([stolen[0]]) == [Verdict.UNKNOWN_KEY]


class Enrolled(FirstUse):
    """Only these keys may sign."""

    is_by_first_use = False

    def __init__(self, *keys: PublicKey, until: int = 10**9) -> None:
        self.keys = [key.raw for key in keys]
        self.until = until

    def accepts(self, key: bytes, host: str, time: int) -> bool:
        return key in self.keys and time < self.until

    def enrolled(self, host: str) -> Sequence[bytes]:
        return self.keys


def test_only_enrolled_keys_count() -> None:
    entries = written(8, random.Random(1), is_agent=False)
    reader = read_in([entries], trust=Enrolled(OTHER.public))
    assert {verdict for _, verdict in reader.verdicts} == {Verdict.UNKNOWN_KEY}
    assert reader.folded == {}
    # Also those that do not carry the key.
    (plain,) = [entry for entry in entries if len(entry.proof or b"") < 100][:1]
    reader = read_in([[plain]], trust=Enrolled(OWNER.public, OTHER.public))
    assert reader.folded == {plain.seq: plain.value}


def test_another_enrolled_key_may_follow_and_a_revoked_one_ends() -> None:
    both = Enrolled(OWNER.public, OTHER.public)
    reader = read_in([written(4, random.Random(1), is_agent=False)], trust=both)
    chain = Chain(OTHER)
    follows = [Entry(seq, b"n", chain.prove(b"n", 0.0).encoded, False) for seq in (4, 5)]
    assert reader.read(follows) == [Verdict.PROVEN] * 2
    assert reader.faults == []
    reader.trust = Enrolled(OTHER.public, until=1007)
    ended = [Entry(seq, b"n", chain.prove(b"n", 0.0).encoded, False) for seq in (6, 7)]
    assert reader.read(ended) == [Verdict.PROVEN, Verdict.UNKNOWN_KEY]
