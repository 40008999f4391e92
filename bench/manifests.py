"""`python -m bench.manifests`: the size of a table's manifests, complete and with changes only.

The table was loaded every hour of a year. Each further hour has two runs: one adds files to the
hour, one merges and closes it. Nothing else runs: no brokers, no Spark, no rows.
"""

import argparse
import statistics
import sys
import tempfile
import time
from typing import Final

import msgspec

from loader.commit.commit_log import CommitLog
from loader.commit.layout import hour_path, part_path, success_marker
from loader.commit.old_hours import trimmed_hours
from loader.store.local import LocalStore
from loader.store.store import MOST_BYTES
from loader.values.manifests import (
    VERSION,
    Added,
    HourState,
    KnownSources,
    Manifest,
    PartitionState,
    RunKind,
    TopicState,
)
from loader.values.tables import HOUR_MILLIS, Hour

_TABLE: Final = "page_views"
_BEGIN: Final = 1_795_132_800_000
_ROWS: Final = 1_000_000
_SCHEMA_BYTES: Final = 3_000  # twenty columns, as Spark's JSON
_KEPT: Final = 100


class _Reading(LocalStore):
    """Counts what is read."""

    files_read = 0
    bytes_read = 0

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        data = super().read(path, limit)
        self.files_read += 1
        self.bytes_read += len(data or b"")
        return data


def _file(hour: Hour, partition: int, run: int) -> Added:
    first = run * _ROWS
    path = part_path(
        _TABLE, hour, cluster="dc1", partition=partition, first=first, end=first + _ROWS, run=run
    )
    staged = f"_penstock/{_TABLE}/staging/run-{run}-{run:032x}/pieces/slice={partition}/x.parquet"
    return Added(
        staged=staged,
        path=f"{path}.parquet",
        hour=hour,
        rows=_ROWS,
        bytes=22 * _ROWS,
        checksum="CRC32C:1a2b3c4d",
        cluster="dc1",
        topic=_TABLE,
        partition=partition,
        first=first,
        next_offset=first + _ROWS,
    )


def _closed(hour: Hour, run: int, rows: int) -> HourState:
    path = f"{hour_path(_TABLE, hour)}/part-merged-0000-{run}.parquet"
    return HourState(
        rows=rows, files=(path,), bytes=22 * rows, changed=run - 1, complete=run, at=hour
    )


def _before(hours: int, sources: int, partitions: int) -> Manifest:
    """The complete manifest after so many hours."""
    run = 2 * hours
    states = {
        Hour(_BEGIN - age * HOUR_MILLIS): _closed(
            Hour(_BEGIN - age * HOUR_MILLIS), run - 2 * age + 2, partitions * _ROWS
        )
        for age in range(hours, 0, -1)
    }
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.CLOSE,
        table=_TABLE,
        committed=_BEGIN,
        loader="loader-1.example.com/4242/0123abcd penstock 0.1.0",
        topics=(
            TopicState(
                topic=_TABLE,
                cluster="dc1",
                topic_id="0" * 32,
                partitions=tuple(
                    PartitionState(partition=index, next_offset=run * _ROWS)
                    for index in range(partitions)
                ),
            ),
        ),
        hours=trimmed_hours(states, _BEGIN),
        sources=_sources(Hour(_BEGIN), sources, partitions, run),
        schema="s" * _SCHEMA_BYTES,
        format="parquet",
        header="flat",
    )


def _sources(hour: Hour, sources: int, partitions: int, run: int) -> tuple[KnownSources, ...]:
    return tuple(
        KnownSources(
            topic=_TABLE,
            partition=partition,
            loaded=hour,
            landed={
                f"web-{index:04}.example.com/{index:08x}": run * 1_000
                for index in range(partition, sources, partitions)
            },
        )
        for partition in range(partitions)
    )


def _loaded(before: Manifest, hour: Hour, sources: int, partitions: int) -> Manifest:
    run = before.run + 1
    adds = tuple(_file(hour, partition, run) for partition in range(partitions))
    paths, rows = tuple(file.path for file in adds), partitions * _ROWS
    state = HourState(rows=rows, files=paths, bytes=22 * rows, changed=run, at=hour)
    return msgspec.structs.replace(
        before,
        run=run,
        kind=RunKind.LOAD,
        adds=adds,
        removes=(),
        markers=(),
        hours=trimmed_hours({**before.hours, hour: state}, hour),
        sources=_sources(hour, sources, partitions, run),
    )


def _closing(before: Manifest, hour: Hour) -> Manifest:
    run, open_state = before.run + 1, before.hours[hour]
    state = _closed(hour, run, open_state.rows)
    return msgspec.structs.replace(
        before,
        run=run,
        kind=RunKind.CLOSE,
        adds=(_file(hour, -1, run),),
        removes=open_state.files,
        markers=(success_marker(_TABLE, hour, state, run),),
        hours=trimmed_hours({**before.hours, hour: state}, hour),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=8_760)
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--loads", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = _Reading(f"file://{folder}")
        log = CommitLog(store, _TABLE)
        manifest = _before(options.hours, options.sources, options.partitions)
        written: list[int] = []
        complete: list[int] = []
        commits: list[float] = []
        reads: list[tuple[int, int, float]] = []

        def commit(manifest: Manifest) -> None:
            began = time.perf_counter()
            log.commit(manifest)
            commits.append(time.perf_counter() - began)
            log.mark_visible(manifest.run)
            log.mark_published(manifest.run)
            complete.append(len(msgspec.json.encode(manifest)))
            written.append(store.size(f"_penstock/{_TABLE}/manifest-{manifest.run}.json") or 0)

        log.mark_visible(manifest.run - 1)
        commit(manifest)
        for load in range(options.loads):
            hour = Hour(_BEGIN + load * HOUR_MILLIS)
            log = CommitLog(store, _TABLE)
            store.files_read, store.bytes_read, began = 0, 0, time.perf_counter()
            for run in log.runs()[-2:]:  # their markers are checked
                log.read(run)
            log.latest()
            seconds = time.perf_counter() - began
            manifest = _loaded(manifest, hour, options.sources, options.partitions)
            commit(manifest)
            log.forget(_KEPT)
            manifest = _closing(manifest, hour)
            commit(manifest)
            log.forget(_KEPT)
            reads.append((store.files_read, store.bytes_read, seconds))
        kept = [entry.size for entry in store.list(f"_penstock/{_TABLE}") if entry.size]
    runs = len(written) - 1
    rows = (
        ("runs", runs),
        ("of these complete", sum(a >= b for a, b in zip(written[1:], complete[1:], strict=True))),
        ("bytes of a complete manifest", round(statistics.mean(complete))),
        ("bytes written in a run, mean", round(statistics.mean(written[1:]))),
        ("bytes written in a run, median", round(statistics.median(written[1:]))),
        ("manifests kept", len(kept)),
        ("bytes of them", sum(kept)),
        (f"bytes of {_KEPT} complete ones", sum(complete[-_KEPT:])),
        ("manifests read in a load, mean", round(statistics.mean(x[0] for x in reads), 2)),
        ("bytes read in a load, mean", round(statistics.mean(x[1] for x in reads))),
        ("ms until the state is read, median", round(1e3 * statistics.median(x[2] for x in reads))),
        ("ms of a commit, median", round(1e3 * statistics.median(commits))),
    )
    sys.stdout.write("".join(f"{value:>12,}  {name}\n" for name, value in rows))


if __name__ == "__main__":
    main()
