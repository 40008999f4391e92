"""Everything that a run writes before its commit: slices landed, formats made, rows counted.

What is staged belongs to nobody until a manifest names it. Whatever goes wrong here, the brokers
still have everything, and the next run begins anew.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from loader.commit.landed_sources import LandedSources, seen_in
from loader.commit.layout import run_folder
from loader.commit.staging import Staged, read_again, reshaped, staged, verified
from loader.config import FileFormat
from loader.job import land, working
from loader.landing.pieces import FileKind
from loader.manifests import KnownSources
from loader.reports import check_hours
from loader.rewriting.counting import count_rows
from loader.rewriting.formats import RowFormat
from loader.rewriting.reshaping import reshape
from loader.surroundings import Surroundings
from loader.table_columns import TableColumns
from loader.tables import Hour, Partition, Slice, TableSource
from loader.task_spec import (
    NOTHING_BESIDES,
    Besides,
    Seen,
    TaskSpec,
    grouped,
    landing_job,
    times_from,
)

TASKS_PER_CORE: Final = 4
PIECES: Final = "pieces"  # the folder of the first job
AGAIN: Final = "again"  # of the one that may follow it


class StagingRun:
    """One run of one table, up to its commit."""

    def __init__(
        self, around: Surroundings, table: TableSource, run: int, columns: TableColumns
    ) -> None:
        self.folder = run_folder(table.name, run, uuid.uuid4().hex)
        self._around = around
        self._table = table
        self._columns = columns
        self._times = times_from(around.now(), around.config.oldest, around.config.newest)
        self._target = RowFormat(
            around.config.format, around.config.compression, columns.columns.spark_json
        )

    def stage(
        self,
        slices: Sequence[Slice],
        known: Sequence[KnownSources],
        only_hours: tuple[Hour, ...] = (),
    ) -> Staged:
        """All slices, verified. Raises LoaderError."""
        if not slices:  # a gap was accepted, and there is nothing behind it
            return Staged({}, ())
        seen = seen_in(known, {each.origin for each in slices})
        sources = LandedSources(known)
        left = self._landed(slices, seen, only_hours, PIECES, sources)
        check_hours(left.reports.values())
        if sources.twice:
            left = self._landed_again(left, slices, seen, only_hours, sources.twice)
        left = self._in_its_format(left)
        self._around.watcher.doing(self._table.name, "counting what was written")
        return verified(self._counted(left), left)

    def _landed(
        self,
        slices: Sequence[Slice],
        seen: Mapping[Partition, Seen],
        only_hours: tuple[Hour, ...],
        name: str,
        sources: LandedSources,
        *,
        besides: Besides = NOTHING_BESIDES,
    ) -> Staged:
        """What these slices become, in a folder of this name. `seen` is by partition."""
        around, table = self._around, self._table.name
        around.go_on(table)
        spec = TaskSpec(
            brokers=around.config.brokers,
            registry=around.config.registry,
            table=table,
            reader_schema=self._columns.schema.resolved_text,
            header=around.config.header,
            with_cluster=self._table.with_cluster,
            compression=around.config.compression,
            memory_bytes=around.config.tasks.memory_bytes,
            window_millis=around.config.window * 1000,
            times=self._times,
            writer_schemas=self._columns.writers,
            accept_gap=around.request.accept_gap,
            only_hours=only_hours,
        )
        directory = f"{self.folder}/{name}"
        tasks = TASKS_PER_CORE * around.spark.sparkContext.defaultParallelism
        job = landing_job(spec, grouped(slices, tasks), seen, besides)
        if name == PIECES:
            around.watcher.planned(table, len(job.groups), sum(e.end - e.first for e in slices))
        land(around.spark, job, around.store.uri(directory), self._advanced(job.groups))
        return staged(around.store, directory, sources)

    def _landed_again(
        self,
        left: Staged,
        slices: Sequence[Slice],
        seen: Mapping[Partition, Seen],
        only_hours: tuple[Hour, ...],
        twice: Besides,
    ) -> Staged:
        """Slices that have what an earlier one has, too, are done once more, told what that is."""
        self._around.watcher.doing(self._table.name, f"{len(twice)} slices again: duplicates")
        again = [each for each in slices if each.number in twice]
        found = self._landed(again, seen, only_hours, AGAIN, LandedSources(), besides=twice)
        return read_again(left, found)

    def _in_its_format(self, left: Staged) -> Staged:
        """Rows of many hours divided, and all of them in the format that is asked for."""
        around, config, store = self._around, self._around.config, self._around.store
        other = config.format is not FileFormat.PARQUET
        kinds = {FileKind.MIXED, FileKind.ROWS} if other else {FileKind.MIXED}
        concerned = [file for file in left.files if file.kind in kinds]
        if not concerned:
            return left
        around.go_on(self._table.name)
        around.watcher.doing(self._table.name, f"making {config.format} of {len(concerned)} files")
        directory = f"{self.folder}/rows"
        with working(f"{self._table.name}: writing {config.format}"):
            reshape(
                around.spark,
                [store.uri(file.path) for file in concerned if file.kind is FileKind.ROWS],
                [store.uri(file.path) for file in concerned if file.kind is FileKind.MIXED],
                store.uri(directory),
                self._target,
            )
        return reshaped(left, kinds, store, directory)

    def _counted(self, left: Staged) -> dict[str, int]:
        """The rows in every file, by path: from the files themselves."""
        spark, store, format_ = self._around.spark, self._around.store, self._around.config.format
        paths = {store.uri(file.path): file for file in left.files}
        rows = [uri for uri, file in paths.items() if file.kind is FileKind.ROWS]
        dead = [uri for uri, file in paths.items() if file.kind is FileKind.DEAD]
        with working(f"{self._table.name}: counting rows"):
            counts = count_rows(spark, rows, format_)
            counts |= count_rows(spark, dead, FileFormat.PARQUET)
        return {paths[uri].path: count for uri, count in counts.items()}

    def _advanced(self, groups: Sequence[Sequence[Slice]]) -> Callable[[int], None]:
        """Tasks run in the order of their groups, about."""
        offsets = (sum(each.end - each.first for each in group) for group in groups)
        done = [0, *accumulate(offsets)]
        table, watcher = self._table.name, self._around.watcher

        def advanced(tasks: int) -> None:
            tasks = min(tasks, len(groups))
            watcher.advanced(table, tasks, done[tasks])

        return advanced
