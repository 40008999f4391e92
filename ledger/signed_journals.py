"""Examines the agents' journals in chunks of the ledger, for readers that need few of their entries
and have no database (ledger/examination.py has the rules).

A journal is known by the first key that signs an entry of it, and one that is named after a key by
that key. What is not signed by a journal's key is not proven, whatever it says.

An agent signs its entries with heartbeats, and these prove the ones before them. So an entry may be
pending at the end of a chunk, and be proven by a later one. The reader keeps what it needs of it,
by the journal and the entry's number and digest.

Pure. For one thread.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ground.signatures.keys import PublicKey
from ledger.examination import (
    Examined,
    FirstUse,
    JournalState,
    ProofFaultKind,
    Rows,
    Standing,
    Verdict,
    examined,
    examined_quickly,
)
from ledger.source_ids import journal_id, owner_of

_TRUST: Final = FirstUse()


class EntryName(NamedTuple):
    """A pending entry: several may have one number, of which one is the journal's."""

    journal: str
    seq: int
    digest: bytes


class ExaminedChunk(NamedTuple):
    """The rows of proven and pending entries of a chunk, and what became of earlier pending
    ones."""

    proven: list[int]
    pending: dict[int, EntryName]  # by row
    since_proven: list[EntryName]
    dropped: list[EntryName]  # that will never be proven


class SignedJournals(msgspec.Struct):
    """What is known of the journals of agents that have a key, by their names. Times are the
    reader's, as agents' clocks may be wrong."""

    states: dict[str, JournalState] = {}
    read_at: dict[str, int] = {}  # when an entry of the journal was last read, milliseconds

    def owners(self) -> dict[str, str]:
        """Returns the journals by the letters with which their sources begin."""
        return {owner_of(_id_of(state)): name for name, state in self.states.items()}

    def forget(self, read_before: int) -> None:
        """Drops the journals of which nothing was read since `read_before`."""
        self.read_at = {name: time for name, time in self.read_at.items() if time >= read_before}
        self.states = {name: self.states[name] for name in self.read_at}

    def examine(
        self, body: pa.StructArray, proofs: pa.StructArray | None, now: int = 0
    ) -> ExaminedChunk:
        """Examines the next entries, as `LEDGER_TYPE`, with their proofs, as `PROOF_TYPE`. `now` is
        the time in milliseconds."""
        result = ExaminedChunk([], {}, [], [])
        if proofs is None or not len(body):
            return result
        groups = self._groups(body, proofs)
        if not groups:
            return result
        rows, places = _rows(body, proofs, [row for _, group in groups for row in group])
        for name, group in groups:
            self._examine(name, group, rows, [places[row] for row in group], result)
            if name in self.states:
                self.read_at[name] = now
        return result

    def _groups(self, body: pa.StructArray, proofs: pa.StructArray) -> list[tuple[str, list[int]]]:
        """Returns the rows of each agent's journal that has a key or a proof."""
        header = body.field("header")
        is_agent = pc.and_(
            pc.equal(body.field("tier"), "agent"), pc.greater_equal(header.field("seq"), 0)
        ).to_numpy(zero_copy_only=False)
        journals = header.field("source").dictionary_encode()
        names = journals.dictionary.to_pylist()
        codes = journals.indices.to_numpy(zero_copy_only=False)
        has_proof = proofs.field("proof").is_valid().to_numpy(zero_copy_only=False)
        is_signed = np.array([name in self.states for name in names], np.bool_)
        is_signed[codes[has_proof]] = True
        rows = np.flatnonzero(is_signed[codes] & is_agent)
        if not len(rows):
            return []
        order = np.argsort(codes[rows], kind="stable")
        rows = rows[order]
        begins = np.flatnonzero(np.diff(codes[rows], prepend=-1))
        ends = np.append(begins[1:], len(rows))
        return [
            (names[codes[rows[begin]]], rows[begin:end].tolist())
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def _examine(
        self,
        name: str,
        group: Sequence[int],
        rows: Rows,
        places: Sequence[int],
        result: ExaminedChunk,
    ) -> None:
        state = self.states.get(name)
        part = None if state is None else examined_quickly(state, rows, places, _TRUST)
        if part is None:
            part = examined(
                name, state, rows, places, standing=lambda _: Standing.NEW, trust=_TRUST
            )
        if part.state is None:
            return
        self.states[name] = part.state
        for row, place, verdict in zip(group, places, part.verdicts, strict=True):
            if verdict in {Verdict.PROVEN, Verdict.DISPLACING}:
                result.proven.append(row)
            elif _is_loose(part.state, rows.seqs[place], rows.digests[place]):
                result.pending[row] = EntryName(name, rows.seqs[place], rows.digests[place])
        if state is not None and state.loose:
            _settle(name, state, part, result)


def _settle(name: str, before: JournalState, part: Examined, result: ExaminedChunk) -> None:
    """Tells what became of the entries that were pending before."""
    after = part.state
    altered = [
        range(fault.first, fault.end)
        for fault in part.faults
        if fault.kind is ProofFaultKind.ALTERED
    ]
    for seq, digests in before.loose.items():
        if after is not None and seq in after.loose:
            continue
        is_proven = after is not None and after.key == before.key
        is_proven &= not any(seq in numbers for numbers in altered)
        first, *others = (EntryName(name, seq, digest) for digest in digests)
        (result.since_proven if is_proven else result.dropped).append(first)
        result.dropped.extend(others)


def _is_loose(state: JournalState, seq: int, digest: bytes) -> bool:
    return digest in state.loose.get(seq, ())


def _rows(
    body: pa.StructArray, proofs: pa.StructArray, wanted: Sequence[int]
) -> tuple[Rows, Mapping[int, int]]:
    """Returns these rows of a chunk, and the place of each."""
    indices = pa.array(wanted, pa.int64())
    header = body.field("header")
    beats = body.field("heartbeats").take(indices)
    seqs, hosts, times = (
        header.field(name).take(indices).to_pylist() for name in ("seq", "host", "time")
    )
    has_beats = pc.greater(pc.list_value_length(beats), 0).to_pylist()
    floors = np.array(times, np.int64)
    np.minimum.at(
        floors,
        pc.list_parent_indices(beats).to_numpy(zero_copy_only=False),
        beats.flatten().field("until").to_numpy(zero_copy_only=False),
    )
    rows = Rows(
        seqs,
        proofs.field("digest").take(indices).to_pylist(),
        proofs.field("proof").take(indices).to_pylist(),
        [True] * len(wanted),
        [not has_beat for has_beat in has_beats],
        hosts,
        times,
        floors.tolist(),
    )
    return rows, {row: place for place, row in enumerate(wanted)}


def _id_of(state: JournalState) -> str:
    return journal_id(PublicKey(state.key))
