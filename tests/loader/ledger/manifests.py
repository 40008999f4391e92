"""Manifests with something to say in the ledger."""

from collections.abc import Mapping
from typing import Final

from loader.config import LoaderConfig
from loader.values.manifests import Manifest, Passage, RunKind, TopicState
from loader.values.reports import ClosedIntervals, LandedWindow
from loader.values.tables import Hour

CONFIG: Final = LoaderConfig(root="hdfs://namenode/logs", topics=("clicks",), cluster="dc1")
TOPIC_ID: Final = "00112233-4455-6677-8899-aabbccddeeff"
PRINTED_ID: Final = "ABEiM0RVZneImaq7zN3u_w"
MINUTE: Final = 60_000


def manifest(
    *passages: Passage, run: int = 3, kind: RunKind = RunKind.LOAD, rebuilt: tuple[Hour, ...] = ()
) -> Manifest:
    return Manifest(
        version=1,
        run=run,
        kind=kind,
        table="clicks",
        committed=1_795_158_000_000,
        loader="hdp-7/4711/abcdef01 penstock 0.1.0",
        topics=(TopicState(topic="clicks", cluster="dc1", topic_id=TOPIC_ID, partitions=()),),
        passages=passages,
        rebuilt=rebuilt,
        ledger_seq=17,
    )


def passage(
    first: int = 100,
    end: int = 110,
    *,
    partition: int = 4,
    windows: tuple[LandedWindow, ...] = (),
    sources: Mapping[str, ClosedIntervals] | None = None,
    late: dict[int, int] | None = None,
) -> Passage:
    return Passage(
        topic="clicks",
        topic_id=TOPIC_ID,
        cluster="dc1",
        partition=partition,
        first=first,
        next_offset=end,
        leader_epoch=5,
        no_events=1,
        windows=windows,
        late=late or {},
        sources=dict(sources or {}),
    )


def windows(count: int, rows: int = 1) -> tuple[LandedWindow, ...]:
    return tuple(
        LandedWindow(start=at * MINUTE, rows=rows, bytes=100, crc_sum=at) for at in range(count)
    )
