"""The audit: decode and fold ledger entries; reconcile a topic."""

from itertools import count
from pathlib import Path

from audit.reconciling.findings import State
from audit.reconciling.picture import (
    ExpectedAgent,
    PartitionPicture,
    Tier,
    TierKind,
    TopicKey,
    TopicPicture,
    Window,
    WindowSums,
)
from audit.reconciling.verdict import reconcile
from audit.store.store import AuditStore
from bench.contents.audit_fleet import HOUR, MINUTE, Fleet
from bench.counted.paths import Act
from client.reading.fetcher import FetchedBatch
from ledger.entries import LedgerEntries, LedgerRows
from ledger.reading import LedgerPositions
from schemas.envelope import Encoder
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.batch import read_header
from wire.record_batches.records import Codec, Record, build_batch

_BEGIN = 1_795_132_800_000
_AGENTS = 97  # and three brokers
_MINUTES = 8  # enough for the warm-up and both measurements


def folded(directory: Path) -> Act:
    fleet = Fleet(_BEGIN, agents=_AGENTS, topics=10)
    encoder = Encoder(built_in(LEDGER), 1)

    def batch(entry: object) -> FetchedBatch:
        data = build_batch([Record(0, _BEGIN, None, encoder.encode(entry))], codec=Codec.ZSTD)
        return FetchedBatch(0, read_header(data), memoryview(data))

    minutes = [
        [batch(entry) for entry in fleet.minute(minute).to_pylist()] for minute in range(_MINUTES)
    ]
    entries = LedgerEntries({1: built_in(LEDGER)}.get)
    store = AuditStore.open(directory)
    numbers = count()

    def act(times: int) -> None:
        for _ in range(times):
            parts = [entries.add(minute_batch) for minute_batch in minutes[next(numbers)]]
            rows = LedgerRows.joined(
                [*(part for part in parts if part is not None), entries.take()]
            )
            fold_result = store.fold("local", rows.body, LedgerPositions(), rows.proofs)
            if fold_result.entries != len(rows) or not fold_result.entries:
                raise RuntimeError(f"{fold_result.entries} of {len(rows)} entries were new")

    return act


def reconciled(_: Path) -> Act:
    """Prepares to reconcile an hour of a healthy topic: eight partitions, sixty agents, equal sums
    in every tier."""
    tiers = (Tier(TierKind.AGENT), Tier(TierKind.BROKER), Tier(TierKind.HDFS, "hdfs:/data"))
    sums = dict.fromkeys(tiers, WindowSums(80, 16_000, 7))
    whole_hour = dict.fromkeys(tiers, ((0, 600),))
    picture = TopicPicture(
        key=TopicKey("local", "clicks", "id"),
        from_time=_BEGIN,
        to_time=_BEGIN + HOUR,
        now=_BEGIN + 2 * HOUR,
        tiers=tiers,
        windows=[Window(_BEGIN + number * MINUTE, MINUTE, sums) for number in range(60)],
        partitions=[PartitionPicture(number, whole_hour) for number in range(8)],
        open=[],
        sources=[],
        agents=[
            ExpectedAgent(f"agent-{number}", f"web-{number}", _BEGIN + HOUR, _BEGIN + HOUR)
            for number in range(60)
        ],
    )

    def act(times: int) -> None:
        for _ in range(times):
            verdict = reconcile(picture)
            if {window.state for window in verdict.windows} != {State.COMPLETE}:
                raise RuntimeError(f"unexpected verdict on a healthy topic: {verdict}")

    return act
