"""Examines the proofs of ledger entries, journal by journal.

A journal is known by its key: the first that signs an entry of it, unless an operator has enrolled
keys, and always the one that its name is made of. From then on, an entry is

- *proven*, if a signature of the journal's key covers it: its own, or through the hash chain one of
  a later entry;
- *pending*, if an agent wrote it without a proof and no later proof has been read yet. Entries with
  heartbeats are never pending: agents prove them;
- *forged*, if it has a wrong signature, or none where one must be, or contradicts a proven entry;
- of an *unknown key*, if it is signed, but with a key that is not the journal's.

If all entries between two proofs are there and the chain does not lead from one to the other, some
of them are not the agent's: they are *altered*. They may have been folded before that was known. If
several entries have one number, the chain tells which of them is the agent's.

An agent that does not know the head before its next entry begins its chain anew, with `NO_HEAD`: a
release without proofs has written in between, or its file of numbers was damaged. Only the owner of
the key can say so. Entries between the two proofs are not proven, but need not be altered.

Rule 1: of entries that follow each other, only the newest signature is verified, as the chain below
        it covers the others. If it is wrong, the one before it is verified, and so on.
Rule 2: what was read in one portion or in several is judged alike, as long as nothing is forged
        that an agent need not sign.
Rule 3: numbers that are neither proven nor between two proofs nor shortly after the last are taken
        by no entry without a signature.

Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum, auto
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from ground.signatures.keys import KEY_BYTES, PublicKey
from ledger.open_stretches import (
    Stretch,
    divided_by_limit,
    divided_by_wholeness,
    heads_known,
    without_proven,
)
from ledger.proofs import HEAD_BYTES, LONG, NO_HEAD, Proof, head_after
from ledger.source_ids import journal_id

MOST_AHEAD: Final = 1024  # numbers of entries without a signature, after the last proven one

_MOST_LOOSE: Final = 8 * MOST_AHEAD  # entries without a signature, of a journal
_MOST_RIVALS: Final = 4  # entries of one number that are compared with the chain
_PREVIOUS: Final = slice(1, 1 + HEAD_BYTES)


class Standing(IntEnum):
    """Whether an earlier entry of the journal has the same number."""

    NEW = 0
    SAME = auto()  # and the same content
    OTHER = auto()  # and other content


class Verdict(IntEnum):
    """What the examination of one entry resulted in."""

    UNSIGNED = 0  # the journal has no known key
    REPEATED = auto()
    PENDING = auto()
    PROVEN = auto()
    DISPLACING = auto()  # proven, and another entry was taken for it before
    FORGED = auto()
    UNKNOWN_KEY = auto()

    @property
    def is_believed(self) -> bool:
        return self < Verdict.FORGED


class ProofFaultKind(StrEnum):
    CLAIMS = "claims another's source"  # found by the reader of whole entries
    FORGED = "forged"
    ALTERED = "altered"
    UNKNOWN_KEY = "unknown key"
    TIER = "another tier's"  # the journal, or its key, is that of a program of another tier
    UNSIGNED = "unsigned"  # and rejected: found by readers that require signatures
    BEGUN_ANEW = "chain begun anew"  # between two proofs, of which the second builds on nothing


class ProofFault(NamedTuple):
    """Entries of a journal that are not what their journal's key has signed. `row` is one of them
    in the examined rows, or -1."""

    kind: ProofFaultKind
    first: int
    end: int
    row: int
    since: int  # milliseconds: the span of what may be wrong
    until: int
    key: bytes = b""  # an unknown one


class JournalState(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a journal with a key."""

    key: bytes
    begin: int  # the first number that the key has signed
    begin_time: int  # milliseconds
    end: int  # the number after the newest proven entry
    head: bytes  # after that entry
    time: int  # of that entry
    floor: int  # up to then its agent has reported everything
    loose: dict[int, tuple[bytes, ...]] = {}  # digests of pending entries; the folded one is first
    open: tuple[Stretch, ...] = ()


class Trust(Protocol):
    """Which keys may sign for a host."""

    @property
    def is_by_first_use(self) -> bool:
        """Whether an unknown key may be that of a new journal."""
        ...

    def accepts(self, key: bytes, host: str, time: int) -> bool:
        """Whether the key may sign entries of this time."""
        ...

    def enrolled(self, host: str) -> Sequence[bytes]:
        """Returns the keys that an operator has enrolled for a host."""
        ...


class FirstUse:
    """Trusts the first key of each journal."""

    is_by_first_use = True

    def accepts(self, key: bytes, host: str, time: int) -> bool:
        return True

    def enrolled(self, host: str) -> Sequence[bytes]:
        return ()


class Rows(msgspec.Struct, frozen=True):
    """Entries in the order of the ledger, as lists of equal length."""

    seqs: Sequence[int]
    digests: Sequence[bytes]
    proofs: Sequence[bytes | None]
    agents: Sequence[bool]
    unsigned: Sequence[bool]  # may be without a proof
    hosts: Sequence[str]
    times: Sequence[int]
    floors: Sequence[int]  # up to then everything is reported by this entry


class Examined(NamedTuple):
    """The state of a journal after some entries, and the verdict of each."""

    state: JournalState | None
    verdicts: list[Verdict]
    faults: list[ProofFault]


def examined_quickly(
    state: JournalState, rows: Rows, indexes: Sequence[int], trust: Trust
) -> Examined | None:
    """Examines entries of a journal that follow each other and the state; None if they do not, or
    if anything is wrong with them."""
    head, next_seq = state.head, state.end
    if state.open:
        return None
    for seq in sorted(state.loose):
        rivals = state.loose[seq]
        if seq != next_seq or len(rivals) > 1:
            return None
        head, next_seq = sha256(head + rivals[0]).digest(), seq + 1
    seqs, digests, proofs, unsigned = rows.seqs, rows.digests, rows.proofs, rows.unsigned
    newest, newest_place, newest_head = -1, -1, b""
    for place, index in enumerate(indexes):
        if seqs[index] != next_seq:
            return None
        proof = proofs[index]
        if proof is None:
            if not unsigned[index]:
                return None
        elif proof[_PREVIOUS] != head:
            return None
        head, next_seq = sha256(head + digests[index]).digest(), next_seq + 1
        if proof is not None:
            newest, newest_place, newest_head = index, place, head
            if len(proof) == LONG and proof[-KEY_BYTES:] != state.key:
                return None
    if next_seq - (seqs[newest] + 1 if newest >= 0 else state.end) > MOST_AHEAD:
        return None
    if newest < 0:
        loose = state.loose | {seqs[index]: (digests[index],) for index in indexes}
        return Examined(replace(state, loose=loose), [Verdict.PENDING] * len(indexes), [])
    decoded = Proof.decode(proofs[newest] or b"")
    if decoded is None or not decoded.holds(PublicKey(state.key), digests[newest]):
        return None
    if not trust.accepts(state.key, rows.hosts[newest], rows.times[newest]):
        return None
    proven = newest_place + 1
    verdicts = [Verdict.PROVEN] * proven + [Verdict.PENDING] * (len(indexes) - proven)
    new_state = replace(
        state,
        end=seqs[newest] + 1,
        head=newest_head,
        time=rows.times[newest],
        floor=rows.floors[newest],
        loose={seqs[index]: (digests[index],) for index in indexes[proven:]},
    )
    return Examined(new_state, verdicts, [])


def examined(
    journal: str,
    state: JournalState | None,
    rows: Rows,
    indexes: Sequence[int],
    *,
    standing: Callable[[int], Standing],
    trust: Trust,
) -> Examined:
    """Examines any entries of a journal. `standing` tells about the entry of an index."""
    verdicts: dict[int, Verdict] = {}
    faults: list[ProofFault] = []
    portion: list[int] = []  # entries under one key

    def finish_portion() -> None:
        nonlocal state
        if state is not None and portion:
            part = _Part(state, rows, standing, verdicts, faults)
            state = part.examined(portion)
        portion.clear()

    for place, index in enumerate(indexes):
        key = _signer(journal, state, rows, index, trust)
        if isinstance(key, Verdict):
            verdicts[index] = key
            if key is not Verdict.UNSIGNED:
                faults.append(_fault_of(rows, index, key))
            continue
        if state is None:
            quick_result = examined_quickly(
                _bound(None, rows, index, key), rows, indexes[place:], trust
            )
            if quick_result is not None:  # as of nearly all journals that are new
                former_verdicts = [verdicts[index] for index in indexes[:place]]
                new_verdicts = [*former_verdicts, *quick_result.verdicts]
                return Examined(quick_result.state, new_verdicts, faults)
        if state is None or state.key != key:
            finish_portion()
            if state is not None and journal_id(PublicKey(key)) == journal:
                # Somebody has signed with another key under this journal's name.
                kind = ProofFaultKind.ALTERED
                since, until = state.begin_time, max(state.time, rows.times[index])
                faults.append(ProofFault(kind, state.begin, state.end, -1, since, until))
                state = None
            state = _bound(state, rows, index, key)
        portion.append(index)
    finish_portion()
    return Examined(state, [verdicts[index] for index in indexes], faults)


def _signer(
    journal: str, state: JournalState | None, rows: Rows, index: int, trust: Trust
) -> bytes | Verdict:
    """Returns the key under which an entry must be examined, or a verdict that needs none."""
    proof = Proof.decode(rows.proofs[index] or b"")
    host, time = rows.hosts[index], rows.times[index]
    if proof is None:
        return Verdict.UNSIGNED if state is None else state.key
    key = None if proof.key is None else proof.key.raw
    if state is not None and key in {None, state.key}:
        if not trust.accepts(state.key, host, time):
            is_signed = proof.holds(PublicKey(state.key), rows.digests[index])
            return Verdict.UNKNOWN_KEY if is_signed else Verdict.FORGED
        return state.key
    if key is None:
        return next(
            (
                key
                for key in trust.enrolled(host)
                if proof.holds(PublicKey(key), rows.digests[index])
            ),
            Verdict.UNSIGNED if trust.is_by_first_use else Verdict.UNKNOWN_KEY,
        )
    if not proof.holds(PublicKey(key), rows.digests[index]):
        return Verdict.FORGED
    if not trust.accepts(key, host, time):
        return Verdict.UNKNOWN_KEY
    if state is None:
        return key
    is_owner = journal_id(PublicKey(key)) == journal
    is_replaced = key in trust.enrolled(host) and journal_id(PublicKey(state.key)) != journal
    return key if is_owner or is_replaced else Verdict.UNKNOWN_KEY


def _bound(state: JournalState | None, rows: Rows, index: int, key: bytes) -> JournalState:
    """Returns the state of a journal whose entries are signed with a key from this one on."""
    if state is not None:
        return replace(state, key=key)
    proof = Proof.decode(rows.proofs[index] or b"")
    head = b"" if proof is None else proof.previous
    seq, time = rows.seqs[index], rows.times[index]
    return JournalState(key, seq, time, seq, head, time, rows.floors[index])


def _fault_of(rows: Rows, index: int, verdict: Verdict) -> ProofFault:
    seq, time = rows.seqs[index], rows.times[index]
    if verdict is Verdict.FORGED:
        return ProofFault(ProofFaultKind.FORGED, seq, seq + 1, index, time, time)
    proof = Proof.decode(rows.proofs[index] or b"")
    key = b"" if proof is None or proof.key is None else proof.key.raw
    return ProofFault(ProofFaultKind.UNKNOWN_KEY, seq, seq + 1, index, time, time, key)


class _Proven(NamedTuple):
    """Entries of consecutive numbers that one verified signature covers."""

    indexes: list[int]
    previous: bytes  # the head before them
    head: bytes  # and after them


class _Part:
    """The examination of entries under one key."""

    def __init__(
        self,
        state: JournalState,
        rows: Rows,
        standing: Callable[[int], Standing],
        verdicts: dict[int, Verdict],
        faults: list[ProofFault],
    ) -> None:
        self._state = state
        self._rows = rows
        self._standing = standing
        self._verdicts = verdicts
        self._faults = faults
        self._key = PublicKey(state.key)
        self._proofs: dict[int, Proof | None] = {}
        self._holds: dict[int, bool] = {}
        self._loose = dict(state.loose)
        self._rows_of: dict[tuple[int, bytes], int] = {}  # pending, in this part

    def examined(self, indexes: Sequence[int]) -> JournalState:
        rows, verdicts = self._rows, self._verdicts
        by_seq: defaultdict[int, list[int]] = defaultdict(list)
        for index in indexes:
            self._proofs[index] = Proof.decode(rows.proofs[index] or b"")
            if self._standing(index) is Standing.SAME:
                verdicts[index] = Verdict.REPEATED
            else:
                by_seq[rows.seqs[index]].append(index)
        singles: list[int] = []
        pending: list[int] = []
        for seq in sorted(by_seq):
            candidates = by_seq[seq]
            if len(candidates) == 1 and self._standing(candidates[0]) is Standing.NEW:
                singles.append(candidates[0])
                continue
            true_index = self._chosen(candidates)
            if true_index is None:
                pending += self._unsigned_of(candidates)
            else:
                singles.append(true_index)
        for proven in self._proven(singles, pending):
            self._insert(proven)
        self._keep_pending(pending)
        self._close()
        self._limit()
        return replace(self._state, loose=self._loose)

    def _is_signed(self, index: int) -> bool:
        if index not in self._holds:
            proof = self._proofs[index]
            digest = self._rows.digests[index]
            self._holds[index] = proof is not None and proof.holds(self._key, digest)
        return self._holds[index]

    def _forge(self, index: int) -> None:
        self._verdicts[index] = Verdict.FORGED
        self._faults.append(_fault_of(self._rows, index, Verdict.FORGED))

    def _chosen(self, candidates: Sequence[int]) -> int | None:
        """Returns which of several entries of one number is signed, and judges the others."""
        true_index = next((index for index in candidates if self._is_signed(index)), None)
        if true_index is None:
            return None
        digest = self._rows.digests[true_index]
        for index in candidates:
            if index == true_index:
                continue
            if self._rows.digests[index] == digest:
                self._verdicts[index] = Verdict.REPEATED
            elif self._is_signed(index):
                self._verdicts[index] = Verdict.PROVEN  # and contradicts: see disputes.py
            else:
                self._forge(index)
        return true_index

    def _unsigned_of(self, candidates: Iterable[int]) -> Iterator[int]:
        for index in candidates:
            if self._proofs[index] is None and self._rows.unsigned[index]:
                yield index
            else:
                self._forge(index)

    def _proven(self, indexes: Sequence[int], pending: list[int]) -> list[_Proven]:
        """Divides entries, which are in order, into those that signatures cover; adds entries of
        agents that none covers to `pending`, and judges the rest as forged."""
        state = self._state
        heads = heads_known(state.open, state.end, state.head, self._loose)
        proven: list[_Proven] = []
        segment: list[int] = []
        segment_heads: list[bytes] = []  # before the first, and after each
        next_seq = -1

        def finish_segment() -> None:
            newest = len(segment)
            while newest and not self._is_signed(segment[newest - 1]):
                newest -= 1
            if newest:
                proven.append(_Proven(segment[:newest], segment_heads[0], segment_heads[newest]))
            pending.extend(self._unsigned_of(segment[newest:]))
            segment.clear()
            segment_heads.clear()

        for index in indexes:
            seq, proof = self._rows.seqs[index], self._proofs[index]
            head = segment_heads[-1] if segment and seq == next_seq else heads.get(seq)
            if proof is None and not self._rows.unsigned[index]:
                self._forge(index)
                continue
            if proof is None and head is None:
                finish_segment()
                pending.append(index)
                continue
            if proof is not None and proof.previous != head:
                finish_segment()
                head = proof.previous
            elif seq != next_seq:
                finish_segment()
            assert head is not None
            if not segment:
                segment_heads.append(head)
            segment.append(index)
            segment_heads.append(head_after(head, self._rows.digests[index]))
            next_seq = seq + 1
        finish_segment()
        return proven

    def _insert(self, proven: _Proven) -> None:
        """Adds proven entries to the state."""
        rows, state = self._rows, self._state
        for index in proven.indexes:
            self._verdicts[index] = self._proven_verdict(index)
        oldest, newest = proven.indexes[0], proven.indexes[-1]
        first, end = rows.seqs[oldest], rows.seqs[newest] + 1
        if first >= state.end:
            stretches = [*state.open]
            if first > state.end and rows.agents[oldest]:
                times = state.floor, rows.times[oldest]
                stretches.append(Stretch(state.end, first, state.head, proven.previous, *times))
            self._state = replace(
                state,
                end=end,
                head=proven.head,
                time=rows.times[newest],
                floor=rows.floors[newest],
                open=tuple(stretches),
            )
            return
        until, since = rows.times[oldest], rows.floors[newest]
        inner = Stretch(first, end, proven.head, proven.previous, since, until)
        self._state = replace(state, open=without_proven(state.open, inner))

    def _proven_verdict(self, index: int) -> Verdict:
        """An entry that was taken for this one before, without a signature, was not the agent's."""
        seq, digest = self._rows.seqs[index], self._rows.digests[index]
        rivals = self._loose.pop(seq, ())
        if not rivals or rivals[0] == digest:
            return Verdict.PROVEN
        self._alter(seq, seq + 1, self._state.floor, self._rows.times[index])
        return Verdict.DISPLACING

    def _alter(
        self,
        first: int,
        end: int,
        since: int,
        until: int,
        kind: ProofFaultKind = ProofFaultKind.ALTERED,
    ) -> None:
        self._faults.append(ProofFault(kind, first, end, -1, min(since, until), until))

    def _keep_pending(self, pending: Sequence[int]) -> None:
        """Keeps entries without a signature where they may be an agent's."""
        state, rows = self._state, self._rows
        for index in sorted(pending, key=lambda index: (rows.seqs[index], index)):
            seq, digest = rows.seqs[index], rows.digests[index]
            is_open = any(gap.first <= seq < gap.end for gap in state.open)
            is_next = state.end <= seq < state.end + MOST_AHEAD
            rivals = self._loose.get(seq, ())
            is_full = len(rivals) >= _MOST_RIVALS or len(self._loose) >= _MOST_LOOSE
            if is_full or not (is_open or is_next):
                self._forge(index)
            elif digest in rivals:
                self._verdicts[index] = Verdict.REPEATED
            elif not rivals and self._standing(index) is Standing.OTHER:
                self._forge(index)
            else:
                self._loose[seq] = (*rivals, digest)
                self._rows_of[seq, digest] = index
                self._verdicts[index] = Verdict.FORGED if rivals else Verdict.PENDING

    def _close(self) -> None:
        """Judges the stretches all of whose entries have been read."""
        open_stretches, whole_stretches = divided_by_wholeness(self._state.open, self._loose)
        for gap in whole_stretches:
            numbers = range(gap.first, gap.end)
            path = gap.path(self._loose)
            is_proven = path is not None
            if path is None:
                self._alter(gap.first, gap.end, gap.since, gap.until, _kind_of(gap))
                path = [self._loose[seq][0] for seq in numbers]
            for seq, digest in zip(numbers, path, strict=True):
                self._settle(seq, digest, gap, is_proven=is_proven)
        self._state = replace(self._state, open=open_stretches)
        for (_, _), index in sorted(self._rows_of.items()):
            if self._verdicts[index] is Verdict.FORGED:
                self._forge(index)

    def _settle(self, seq: int, digest: bytes, gap: Stretch, *, is_proven: bool) -> None:
        """Judges the entries of a number, of which the one with this digest counts."""
        rivals = self._loose.pop(seq)
        taken = self._rows_of.get((seq, rivals[0]))
        index = self._rows_of.get((seq, digest))
        if not is_proven:
            return
        is_taken_before = taken is None
        if index is not None:
            is_other = digest != rivals[0] and is_taken_before
            self._verdicts[index] = Verdict.DISPLACING if is_other else Verdict.PROVEN
        if digest != rivals[0]:
            if taken is not None:
                self._verdicts[taken] = Verdict.FORGED
            if is_taken_before or index is None:
                self._alter(seq, seq + 1, gap.since, gap.until)

    def _limit(self) -> None:
        """Drops the oldest stretches beyond the limit; whatever is pending there is unproven."""
        open_stretches, dropped_stretches = divided_by_limit(self._state.open)
        self._state = replace(self._state, open=open_stretches)
        for gap in dropped_stretches:
            loose = sorted(seq for seq in self._loose if gap.first <= seq < gap.end)
            for seq in loose:
                del self._loose[seq]
            if loose:
                self._alter(loose[0], loose[-1] + 1, gap.since, gap.until, _kind_of(gap))


def _kind_of(gap: Stretch) -> ProofFaultKind:
    """Returns what is wrong with the entries of a stretch that the chain does not cover."""
    is_anew = gap.previous == NO_HEAD
    return ProofFaultKind.BEGUN_ANEW if is_anew else ProofFaultKind.ALTERED


def fingerprint(key: bytes) -> str:
    """Returns the fingerprint of a key, given as its bytes; empty for none."""
    return PublicKey(key).fingerprint if len(key) == KEY_BYTES else ""
