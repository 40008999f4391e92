"""Manifests to begin with."""

from collections.abc import Mapping

from loader.values.manifests import (
    VERSION,
    HourState,
    KnownSources,
    Manifest,
    PartitionState,
    RunKind,
    TopicState,
)
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder

FIRST = Hour(480_000 * HOUR_MILLIS)  # 2024-10-04, 00:00


def hour(number: int) -> Hour:
    return Hour(FIRST + number * HOUR_MILLIS)


def path(number: int, name: str) -> str:
    return f"logs/{hour_folder(hour(number))}/{name}"


def manifest(hours: Mapping[Hour, HourState], run: int = 5) -> Manifest:
    partition = PartitionState(
        partition=0, next_offset=100, leader_epoch=3, from_offset=50, skipped=1
    )
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.LOAD,
        table="logs",
        committed=1,
        loader="before",
        topics=(TopicState(topic="logs", cluster="dc1", topic_id="1", partitions=(partition,)),),
        dead={"why": 1},
        duplicates=2,
        hours=dict(hours),
        sources=(KnownSources(topic="logs", partition=0, loaded=hour(4), landed={"s": 10}),),
        schema="{}",
        ledger_seq=7,
        ledger_entries=3,
    )
