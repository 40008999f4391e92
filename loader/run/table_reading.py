"""What one run of a table reads, and everything that it writes before its commit: the cluster is
asked, slices landed, formats made, rows counted, and all of it told as a manifest.

Planning changes nothing. What is staged belongs to nobody until a manifest names it. Whatever goes
wrong here, the brokers still have everything, and the next run begins anew.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from loader.commit.history import History
from loader.commit.layout import hour_path, run_folder
from loader.commit.next_state import (
    Terms,
    check_duplicates,
    load_manifest,
    next_run,
    rebuild_manifest,
)
from loader.commit.old_hours import recalled
from loader.commit.sources import LandedSources, seen_in
from loader.commit.staging import (
    Staged,
    not_remembered,
    read_again,
    reshaped,
    staged,
    verified,
)
from loader.config import FileFormat
from loader.decoding.decoded import COLLISION
from loader.errors import LoaderError
from loader.landing.pieces import FileKind
from loader.landing.task_spec import (
    NOTHING_BESIDES,
    Besides,
    LandingJob,
    Seen,
    TaskSpec,
    grouped,
    landing_job,
    times_from,
)
from loader.landing.without_spark import (
    TooLarge,
    is_little,
    is_without_spark,
    land_without_spark,
    rows_in_file,
)
from loader.manifests import Collision, KnownSources, Manifest
from loader.planning.facts import TopicFacts
from loader.planning.log_queries import query_facts, with_divergences
from loader.planning.plan import Plan, plan
from loader.planning.rebuild import plan_rebuild
from loader.reports import LastBatch, check_hours
from loader.rewriting.row_format import RowFormat
from loader.run.collisions import Comparison
from loader.run.load_context import TableLoad
from loader.run.outcomes import PartitionRange
from loader.run.table_form import form_of, in_form, next_form, table_columns
from loader.tables import Hour, Partition, Slice

TASKS_PER_CORE: Final = 4
PIECES: Final = "pieces"  # the folder of the first job
AGAIN: Final = "again"  # of the one that may follow it
SETTLED: Final = "settled"  # of the job that is told what lost a collision


def planned(load: TableLoad, latest: Manifest | None) -> Plan:
    """What is to be read: of what is new, or of the hours that are to be rebuilt. Raises GapError,
    and whatever asking raises."""
    found = _planned(load, latest)
    load.outcome.records = found.records
    load.outcome.ranges = tuple(
        PartitionRange(each.topic, each.partition, each.first, each.end) for each in found.ranges
    )
    for gap in found.gaps:
        load.warn(f"accepted: {gap}")
    for topic in found.absent:
        load.warn(f"there is no topic {topic}")
    for topic, lost in found.never_seen.items():
        load.warn(f"topic {topic} is new here: {lost:,} offsets were deleted before, unread")
    return found


def _planned(load: TableLoad, latest: Manifest | None) -> Plan:
    request, config = load.context.request, load.context.config
    state = () if latest is None else latest.topics
    known = {topic.topic: topic.partitions for topic in state}
    facts = query_facts(load.brokers, {topic: known.get(topic, ()) for topic in load.topics})
    facts = with_divergences(
        load.brokers,
        facts,
        state,
        lambda topic, partition: _earlier(load.history, topic, partition),
    )
    if request.rebuild:
        return _planned_rebuild(load, latest, facts)
    return plan(
        load.table,
        facts,
        state,
        accept_gap=request.accept_gap,
        max_records=request.max_records,
        records_per_task=config.tasks.records,
    )


def _earlier(history: History, topic: str, partition: int) -> Iterator[LastBatch]:
    """The last batches that runs have read of a partition, the newest first."""
    for run in reversed(history.runs()):
        for state in history.read(run).topics:
            for each in state.partitions if state.topic == topic else ():
                if each.partition == partition and each.last is not None:
                    yield each.last


def _planned_rebuild(
    load: TableLoad, latest: Manifest | None, facts: Mapping[str, TopicFacts]
) -> Plan:
    context, hours = load.context, load.context.request.rebuild
    if latest is None:
        raise LoaderError(f"table {load.name}: nothing was loaded that could be rebuilt")
    had = {file for hour in hours if hour in latest.hours for file in latest.hours[hour].files}
    # Of a file that somebody has taken away nothing can be lost.
    listed_now = (each for hour in hours for each in context.store.list(hour_path(load.name, hour)))
    files = [each.path for each in listed_now if each.path in had]
    lowest = context.spark.lowest_offsets(
        f"{load.name}: looking into what is replaced",
        [context.store.uri(file) for file in files],
        context.config.format,
    )
    return plan_rebuild(
        load.table,
        facts,
        latest.topics,
        lowest=lowest,
        accept_gap=context.request.accept_gap,
        records_per_task=context.config.tasks.records,
    )


class TableReading:
    """Of what was planned; used once."""

    def __init__(self, load: TableLoad, latest: Manifest | None, found: Plan) -> None:
        """Raises LoaderError if the rows could not be kept beside those that are there."""
        config = load.context.config
        self.folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
        self._load = load
        self._latest = latest
        self._plan = found
        self._collisions: tuple[Collision, ...] = ()
        self._columns = table_columns(load.context.registry, load.table, config.header)
        for warning in self._columns.warnings:
            load.warn(warning)
        self._former = form_of(latest)
        columns = self._columns.columns
        self._form = next_form(load.name, self._former, columns, config.format)
        self._times = times_from(load.context.now(), config.oldest, config.newest)
        self._target = RowFormat(config.format, config.compression, columns.spark_json)

    def manifest(self) -> Manifest:
        """All of it staged, checked, and told as the manifest that makes it true. Raises
        LoaderError."""
        latest, hours = self._latest, self._load.context.request.rebuild
        left = self._staged(() if latest is None or hours else latest.sources, hours)
        for warning in not_remembered(left):
            self._load.warn(warning)
        if latest is not None and hours:
            made = self._rebuilt(latest, left, hours)
        else:
            made = self._loaded(latest, left)
        made = msgspec.structs.replace(made, collisions=self._collisions)
        self._count(made)
        return in_form(made, self._form, self._former)

    def _loaded(self, latest: Manifest | None, left: Staged) -> Manifest:
        context = self._load.context
        if latest is not None:
            landed = {hour for report in left.reports.values() for hour in report.rows}
            latest = recalled(context.store, latest, sorted(landed), context.now())
        return load_manifest(latest, self._plan, left, self._load.name, self._terms())

    def _rebuilt(self, latest: Manifest, left: Staged, hours: Sequence[Hour]) -> Manifest:
        context, name = self._load.context, self._load.name
        return rebuild_manifest(
            latest,
            self._plan,
            left,
            hours,
            self._terms(),
            markers={
                hour: [each.name for each in context.store.list(hour_path(name, hour))]
                for hour in hours
            },
            accept_gap=context.request.accept_gap,
        )

    def _terms(self) -> Terms:
        context, config = self._load.context, self._load.context.config
        return Terms(
            now=context.now(),
            loader=context.loader,
            schema=self._form.columns,
            dead_share=config.dead_share,
            few_dead=config.few_dead,
            duplicate_share=config.duplicate_share,
            forget_after=int(config.forget_sources * 1000),
        )

    def _count(self, manifest: Manifest) -> None:
        outcome, config = self._load.outcome, self._load.context.config
        rows = [each for each in manifest.adds if each.path.startswith(f"{self._load.name}/")]
        outcome.rows += sum(each.rows for each in rows)
        outcome.bytes += sum(each.bytes for each in rows)
        outcome.files += len(rows)
        outcome.late += sum(sum(each.late.values()) for each in manifest.passages)
        outcome.duplicates += manifest.duplicates
        dead = sum(manifest.dead.values())
        outcome.dead += dead
        records = outcome.rows + manifest.duplicates + dead
        if dead - manifest.dead.get(COLLISION, 0) > config.dead_share * records:
            self._load.warn(
                f"{dead:,} of {records:,} records cannot be decoded, and are dead letters; fewer"
                f" than `few_dead: {config.few_dead}` stop nothing"
            )

    def _staged(self, known: Sequence[KnownSources], only_hours: tuple[Hour, ...]) -> Staged:
        """All slices, verified."""
        slices = self._plan.slices
        if not slices:  # a gap was accepted, and there is nothing behind it
            return Staged({}, ())
        left = self._landed_once(slices, known, only_hours, PIECES)
        if any(report.repeats for report in left.reports.values()):
            left = self._without_collisions(left, known, only_hours)
        left = self._in_its_format(left)
        self._load.doing("counting what was written")
        return verified(self._counted(left), left)

    def _landed_once(
        self,
        slices: Sequence[Slice],
        known: Sequence[KnownSources],
        only_hours: tuple[Hour, ...],
        name: str,
    ) -> Staged:
        """No event of these slices twice."""
        seen = seen_in(known, {each.origin for each in slices})
        sources = LandedSources(known)
        left = self._landed(slices, seen, only_hours, name, sources)
        check_hours(left.reports.values())
        if not sources.twice:
            return left
        # Slices that have what an earlier one has, too, are done once more, told what that is.
        self._load.doing(f"{len(sources.twice)} slices again: duplicates")
        again = [each for each in slices if each.number in sources.twice]
        found = self._landed(
            again, seen, only_hours, f"{name}-{AGAIN}", LandedSources(), besides=sources.twice
        )
        return read_again(left, found)

    def _without_collisions(
        self, left: Staged, known: Sequence[KnownSources], only_hours: tuple[Hour, ...]
    ) -> Staged:
        """Where duplicates have other content than what they repeat, all slices once more."""
        slices = self._plan.slices
        check_duplicates(self._load.name, [*left.reports.values()], self._terms())
        self._load.doing("comparing duplicates")
        comparison = Comparison(self._load, self._spec(only_hours), slices, left, known)
        found = comparison.settle([f"{self.folder}/{PIECES}", f"{self.folder}/{PIECES}-{AGAIN}"])
        self._collisions = tuple(found.collisions)
        if not found.buried and not found.freed:
            return left
        for warning in found.warnings():
            self._load.warn(warning)
        return self._landed_once(found.slices(slices), found.known(known), only_hours, SETTLED)

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
        context = self._load.context
        self._load.check_stopped()
        directory = f"{self.folder}/{name}"
        job = landing_job(self._spec(only_hours), [[each] for each in slices], seen, besides)
        if not self._landed_here(job, directory, again=name != PIECES):
            tasks = TASKS_PER_CORE * context.spark.cores
            job = msgspec.structs.replace(job, groups=grouped(job.slices, tasks))
            advanced = self._advanced(job.groups, again=name != PIECES)
            context.spark.land(job, context.store.uri(directory), advanced)
        return staged(context.store, directory, sources)

    def _landed_here(self, job: LandingJob, directory: str, *, again: bool) -> bool:
        """Whether it was little, and has landed, without Spark."""
        context = self._load.context
        little = is_little(job, context.config.tasks.without_spark)
        if context.config.format is not FileFormat.PARQUET or not little:
            return False
        advanced = self._advanced(job.groups, again=again)

        def done(slices: int) -> None:
            advanced(slices)
            self._load.check_stopped()

        try:
            land_without_spark(context.store, job, directory, self._load.brokers, done)
        except TooLarge:
            context.store.delete(directory)
            return False
        return True

    def _spec(self, only_hours: tuple[Hour, ...]) -> TaskSpec:
        config = self._load.context.config
        return TaskSpec(
            brokers=config.brokers,
            security=config.security,
            registry=config.registry_address,
            table=self._load.name,
            reader_schema=self._columns.schema.resolved_text,
            header=config.header,
            with_cluster=self._load.table.with_cluster,
            compression=config.compression,
            memory_bytes=config.tasks.memory_bytes,
            window_millis=config.window * 1000,
            times=self._times,
            writer_schemas=self._columns.writers,
            accept_gap=self._load.context.request.accept_gap,
            only_hours=only_hours,
        )

    def _in_its_format(self, left: Staged) -> Staged:
        """Rows of many hours divided, and all of them in the format that is asked for."""
        context, config, store = (
            self._load.context,
            self._load.context.config,
            self._load.context.store,
        )
        other = config.format is not FileFormat.PARQUET
        kinds = {FileKind.MIXED, FileKind.ROWS} if other else {FileKind.MIXED}
        concerned = [file for file in left.files if file.kind in kinds]
        if not concerned:
            return left
        self._load.check_stopped()
        self._load.doing(f"making {config.format} of {len(concerned)} files")
        directory = f"{self.folder}/rows"
        context.spark.reshape(
            f"{self._load.name}: writing {config.format}",
            [store.uri(file.path) for file in concerned if file.kind is FileKind.ROWS],
            [store.uri(file.path) for file in concerned if file.kind is FileKind.MIXED],
            store.uri(directory),
            self._target,
        )
        return reshaped(left, kinds, store, directory)

    def _counted(self, left: Staged) -> dict[str, int]:
        """The rows in every file, by path: from the files themselves."""
        context = self._load.context
        store, format_ = context.store, context.config.format
        here = {
            file.path: rows_in_file(store, file.path)
            for file in left.files
            if is_without_spark(file.path)
        }
        paths = {store.uri(file.path): file for file in left.files if file.path not in here}
        if not paths:
            return here
        rows = [uri for uri, file in paths.items() if file.kind is FileKind.ROWS]
        dead = [uri for uri, file in paths.items() if file.kind is FileKind.DEAD]
        on = f"{self._load.name}: counting rows"
        counts = context.spark.count_rows(on, rows, format_)
        counts |= context.spark.count_rows(on, dead, FileFormat.PARQUET)
        return here | {paths[uri].path: count for uri, count in counts.items()}

    def _advanced(self, groups: Sequence[Sequence[Slice]], *, again: bool) -> Callable[[int], None]:
        """Tasks run in the order of their groups, about. What is done again was planned already."""
        offsets = (sum(each.end - each.first for each in group) for group in groups)
        done = [0, *accumulate(offsets)]
        table, watcher = self._load.name, self._load.context.watcher
        if not again:
            watcher.planned(table, len(groups), done[-1])

        def advanced(tasks: int) -> None:
            tasks = min(tasks, len(groups))
            watcher.advanced(table, tasks, done[tasks])

        return advanced
