"""Reads the events of one run: queries the cluster, lands slices, converts formats, counts rows,
and builds the manifest.

Planning changes nothing, and staged files count for nothing until a manifest names them. Whatever
fails here, the brokers still have everything, and the next run starts over.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from client.admin.topics import configs_of_topics
from columns.field_names import field_name
from ground.intervals import size
from loader.commit.altered_hours import AlteredTimes
from loader.commit.commit_log import CommitLog
from loader.commit.layout import hour_path, run_folder
from loader.commit.next_state import (
    Terms,
    check_duplicates,
    load_manifest,
    next_run,
    rebuild_manifest,
    topics_after,
)
from loader.commit.old_hours import recalled
from loader.commit.sources import LandedSources, seen_in
from loader.commit.staging import Staged, memory_warnings, read_again, reshaped, staged, verified
from loader.config import FileFormat
from loader.decoding.decoded import COLLISION
from loader.decoding.spark_types import columns_of_spark
from loader.errors import LoaderError, RowsLost
from loader.landing.pieces import FileKind, WrittenFile
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
from loader.landing.without_spark import TooLarge, is_little, is_local, land_locally, rows_in_file
from loader.planning.facts import TopicFacts
from loader.planning.log_queries import query_facts, with_divergences
from loader.planning.plan import Plan, plan
from loader.planning.rebuild import plan_rebuild, readable_offsets
from loader.rewriting.row_format import RowFormat
from loader.run.collisions import Comparison
from loader.run.landed_files import lacking_columns, partition_rows
from loader.run.load_context import TableLoad
from loader.run.outcomes import PartitionRange
from loader.run.signed_batches import SignedBatches
from loader.run.table_form import form_of, in_form, next_form, renamings, table_columns
from loader.values.manifests import Collision, KnownSources, Manifest
from loader.values.reports import LastBatch, check_hours, half_open
from loader.values.tables import Hour, Partition, Slice, log_name
from schemas.definitions.types import Record

TASKS_PER_CORE: Final = 4
PIECES: Final = "pieces"  # the folder of the first job
AGAIN: Final = "again"  # of a job that lands slices with duplicates again
_FEW: Final = 5  # columns that a warning names
SETTLED: Final = "settled"  # of the job after collisions were settled


def planned(load: TableLoad, latest: Manifest | None) -> Plan:
    """The plan for new events, or for hours to rebuild. Raises GapError, and errors of queries."""
    new_plan = _planned(load, latest)
    load.outcome.records = new_plan.records
    load.outcome.ranges = tuple(
        PartitionRange(part.topic, part.partition, part.first, part.end) for part in new_plan.ranges
    )
    for gap in new_plan.gaps:
        load.warn(f"accepted: {gap}")
    for topic in new_plan.absent:
        load.warn(f"topic {topic} does not exist")
    for topic, deleted_offsets in new_plan.never_seen.items():
        load.warn(
            f"topic {topic} is new: {deleted_offsets:,} offsets were deleted before its first load"
        )
    return new_plan


def _planned(load: TableLoad, latest: Manifest | None) -> Plan:
    request, config = load.context.request, load.context.config
    state = () if latest is None else latest.topics
    states = {topic.topic: topic.partitions for topic in state}
    facts_by_topic = query_facts(
        load.brokers, {topic: states.get(topic, ()) for topic in load.topics}
    )
    facts_by_topic = with_divergences(
        load.brokers,
        facts_by_topic,
        state,
        lambda topic, partition: _earlier(load.commit_log, topic, partition),
    )
    if request.rebuild:
        return _planned_rebuild(load, latest, facts_by_topic)
    return plan(
        load.table,
        facts_by_topic,
        state,
        accept_gap=request.accepts_gap,
        max_records=request.max_records,
        records_per_task=config.tasks.records,
    )


def _earlier(commit_log: CommitLog, topic: str, partition: int) -> Iterator[LastBatch]:
    """The last batches that earlier runs read of a partition, the newest first."""
    for run in reversed(commit_log.runs()):
        for state in commit_log.read(run).topics:
            for log in state.partitions if state.topic == topic else ():
                if log.partition == partition and log.last is not None:
                    yield log.last


def _planned_rebuild(
    load: TableLoad, latest: Manifest | None, facts: Mapping[str, TopicFacts]
) -> Plan:
    context, hours = load.context, load.context.request.rebuild
    if latest is None:
        raise LoaderError(f"table {load.name}: nothing to rebuild: the table was never loaded")
    old_files = {
        file for hour in hours if hour in latest.hours for file in latest.hours[hour].files
    }
    # Files that were deleted have nothing to lose.
    existing_entries = (
        entry for hour in hours for entry in context.store.list(hour_path(load.name, hour))
    )
    files = [entry.path for entry in existing_entries if entry.path in old_files]
    try:
        return plan_rebuild(
            load.table,
            facts,
            latest.topics,
            replaced=partition_rows(load, files, readable_offsets(facts, latest.topics)),
            accept_gap=context.request.accepts_gap,
            remove_rows=context.request.remove_rows,
            records_per_task=context.config.tasks.records,
        )
    except RowsLost as error:
        raise RowsLost(f"{error}{_retention(load)}", error.rows) from None


def _retention(load: TableLoad) -> str:
    """The topics' `retention.ms`, as far as this user may read them, for a message."""
    configs, _ = configs_of_topics(load.brokers, load.topics)
    values = [
        f"of {topic} is {entry.value}"
        for topic, entries in sorted(configs.items())
        for entry in entries
        if entry.name == "retention.ms"
    ]
    return f"; retention.ms {', '.join(values[:_FEW])}" if values else ""


class TableReading:
    """Reads the planned ranges. Used once."""

    def __init__(
        self, load: TableLoad, latest: Manifest | None, plan_: Plan, signed: SignedBatches
    ) -> None:
        """Raises LoaderError if the rows do not fit the table's existing files."""
        config = load.context.config
        self.folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
        self._load = load
        self._latest = latest
        self._plan = plan_
        self._signed = signed
        self._collisions: tuple[Collision, ...] = ()
        self._reports: list[WrittenFile] = []  # of slices that were landed without Spark
        self._columns = table_columns(load.context.registry, load.table, config.header)
        for warning in self._columns.warnings:
            load.warn(warning)
        self._former = form_of(latest)
        columns = self._columns.columns
        self._form = next_form(
            load.name, self._former, columns, config.format, self._columns.latest
        )
        for remark in renamings(self._former, self._form):
            load.warn(remark)
        self._times = times_from(load.context.now(), config.oldest, config.newest)
        self._target = RowFormat(config.format, config.compression, self._form.columns)

    def manifest(self) -> Manifest:
        """Stages and verifies everything, and returns the manifest. Raises LoaderError."""
        latest, hours = self._latest, self._load.context.request.rebuild
        results = self._staged(() if latest is None or hours else latest.sources, hours)
        for warning in memory_warnings(results):
            self._load.warn(warning)
        if latest is not None and hours:
            manifest = self._rebuilt(latest, results, hours)
        else:
            manifest = self._loaded(latest, results)
        manifest = msgspec.structs.replace(manifest, collisions=self._collisions)
        manifest = self._signed.stated(manifest)
        self._count(manifest)
        return in_form(manifest, self._form, self._former)

    def _loaded(self, latest: Manifest | None, results: Staged) -> Manifest:
        context = self._load.context
        if latest is not None:
            landed_hours = {hour for report in results.reports.values() for hour in report.rows}
            latest = recalled(context.store, latest, sorted(landed_hours), context.now())
        topics = topics_after(self._plan, results.reports)
        altered = self._signed.compare_read(
            self._latest, topics, results.reports.values(), events=bool(self._form.header)
        )
        terms = self._terms(altered)
        return load_manifest(latest, self._plan, results, self._load.name, terms)

    def _rebuilt(self, latest: Manifest, results: Staged, hours: Sequence[Hour]) -> Manifest:
        context, name = self._load.context, self._load.name
        self._warn_of_defaults(latest, hours)
        altered = self._signed.compare_rebuilt(
            self._plan.topics, results.reports.values(), hours, events=bool(self._form.header)
        )
        manifest = rebuild_manifest(
            latest,
            self._plan,
            results,
            hours,
            self._terms(altered),
            markers={
                hour: [entry.name for entry in context.store.list(hour_path(name, hour))]
                for hour in hours
            },
            accept_gap=context.request.accepts_gap,
            remove_rows=context.request.remove_rows,
        )
        if manifest.kept_in:
            kept_in = context.store.uri(manifest.kept_in)
            self._load.warn(f"the replaced files stay in {kept_in} for 30 days")
        for passage in manifest.passages:
            if offsets := size(half_open(passage.missing)):
                first, last = passage.missing[0][0], passage.missing[-1][1]
                self._load.warn(
                    f"accepted: {log_name(passage.topic, passage.partition)}: {offsets:,} offsets"
                    f" between {first} and {last} are missing or damaged"
                )
        return manifest

    def _warn_of_defaults(self, latest: Manifest, hours: Sequence[Hour]) -> None:
        """Rows that landed before a column was added have null there; rebuilt ones the default."""
        record = self._columns.schema.type
        fields = record.fields if isinstance(record, Record) else ()
        fields_with_default = (field for field in fields if field.has_default)
        default_names = {field.name for field in fields_with_default if field.default is not None}
        paths = [
            path for hour in hours if hour in latest.hours for path in latest.hours[hour].files
        ]
        columns = {
            column.name
            for column in columns_of_spark(self._form.columns)
            if field_name(column) in default_names
        }
        missing_columns = sorted(lacking_columns(self._load, paths, columns))
        if missing_columns:
            more_columns = (
                f" and {len(missing_columns) - _FEW:,} more" if len(missing_columns) > _FEW else ""
            )
            self._load.warn(
                "columns that the replaced files lack have the schema's default in rebuilt rows;"
                f" other hours keep null: {', '.join(missing_columns[:_FEW])}{more_columns}"
            )

    def _terms(self, altered: tuple[AlteredTimes, ...] = ()) -> Terms:
        context, config = self._load.context, self._load.context.config
        return Terms(
            now=context.now(),
            loader=context.loader,
            schema=self._form.columns,
            schema_number=self._form.number,
            dead_share=config.dead_share,
            few_dead=config.few_dead,
            duplicate_share=config.duplicate_share,
            forget_after=int(config.forget_sources * 1000),
            altered=altered,
        )

    def _count(self, manifest: Manifest) -> None:
        outcome, config = self._load.outcome, self._load.context.config
        rows = [file for file in manifest.adds if file.path.startswith(f"{self._load.name}/")]
        outcome.rows += sum(file.rows for file in rows)
        outcome.bytes += sum(file.bytes for file in rows)
        outcome.files += len(rows)
        outcome.late += sum(sum(passage.late.values()) for passage in manifest.passages)
        outcome.duplicates += manifest.duplicates
        dead_count = sum(manifest.dead.values())
        outcome.dead += dead_count
        records = outcome.rows + manifest.duplicates + dead_count
        if dead_count - manifest.dead.get(COLLISION, 0) > config.dead_share * records:
            self._load.warn(
                f"{dead_count:,} of {records:,} records cannot be decoded, and became dead letters;"
                f" the load continued because they are fewer than `few_dead: {config.few_dead}`"
            )

    def _staged(self, known: Sequence[KnownSources], only_hours: tuple[Hour, ...]) -> Staged:
        """Stages all slices, verified."""
        slices = self._plan.slices
        if not slices:  # a gap was accepted, and no events follow it
            return Staged({}, ())
        results = self._landed_once(slices, known, only_hours, PIECES)
        if any(report.repeats for report in results.reports.values()):
            results = self._without_collisions(results, known, only_hours)
        results = self._converted(results)
        self._load.doing("counting written rows")
        return verified(self._counted(results), results)

    def _landed_once(
        self,
        slices: Sequence[Slice],
        known: Sequence[KnownSources],
        only_hours: tuple[Hour, ...],
        name: str,
    ) -> Staged:
        """Lands the slices so that no event is written twice."""
        seen_events = seen_in(known, {piece.origin for piece in slices})
        sources = LandedSources(known)
        results = self._landed(slices, seen_events, only_hours, name, sources)
        check_hours(results.reports.values())
        if not sources.twice:
            return results
        # Slices with events of earlier slices are landed again, with knowledge of these.
        self._load.doing(f"reading {len(sources.twice)} slices again: duplicates")
        slices_again = [piece for piece in slices if piece.number in sources.twice]
        repeated_slices = self._landed(
            slices_again,
            seen_events,
            only_hours,
            f"{name}-{AGAIN}",
            LandedSources(),
            besides=sources.twice,
        )
        return read_again(results, repeated_slices)

    def _without_collisions(
        self, results: Staged, known: Sequence[KnownSources], only_hours: tuple[Hour, ...]
    ) -> Staged:
        """Lands all slices again if duplicates differ from their originals."""
        slices = self._plan.slices
        check_duplicates(self._load.name, [*results.reports.values()], self._terms())
        self._load.doing("comparing duplicates")
        for report in self._reports:
            self._load.context.store.write(report.path, report.report)
        comparison = Comparison(self._load, self._spec(only_hours), slices, results, known)
        settled = comparison.settle([f"{self.folder}/{PIECES}", f"{self.folder}/{PIECES}-{AGAIN}"])
        self._collisions = tuple(settled.collisions)
        if not settled.buried and not settled.freed:
            return results
        for warning in settled.warnings():
            self._load.warn(warning)
        return self._landed_once(settled.slices(slices), settled.known(known), only_hours, SETTLED)

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
        """Lands these slices in a folder of this name. `seen` is by partition."""
        context = self._load.context
        self._load.check_stopped()
        directory = f"{self.folder}/{name}"
        job = landing_job(self._spec(only_hours), [[piece] for piece in slices], seen, besides)
        written = self._landed_without_spark(job, directory, again=name != PIECES)
        if written is None:
            tasks = TASKS_PER_CORE * context.spark.cores
            job = msgspec.structs.replace(job, groups=grouped(job.slices, tasks))
            report_progress = self._advanced(job.groups, again=name != PIECES)
            context.spark.land(job, context.store.uri(directory), report_progress)
        return staged(context.store, directory, sources, written)

    def _landed_without_spark(
        self, job: LandingJob, directory: str, *, again: bool
    ) -> list[WrittenFile] | None:
        """Lands a small job without Spark. None if it is not small."""
        context = self._load.context
        is_small = is_little(job, context.config.tasks.without_spark)
        if context.config.format is not FileFormat.PARQUET or not is_small:
            return None
        report_progress = self._advanced(job.groups, again=again)

        def done(slices: int) -> None:
            report_progress(slices)
            self._load.check_stopped()

        try:
            written = land_locally(context.store, job, directory, self._load.brokers, done)
        except TooLarge:
            context.store.delete(directory)
            return None
        self._reports += [file for file in written if file.report]
        return written

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
            columns=self._form.columns,
            memory_bytes=config.tasks.memory_bytes,
            window_millis=config.window * 1000,
            times=self._times,
            writer_schemas=self._columns.writers,
            accept_gap=self._load.context.request.accepts_gap,
            only_hours=only_hours,
        )

    def _converted(self, results: Staged) -> Staged:
        """Divides mixed rows, and converts all rows to the configured format."""
        context, config, store = (
            self._load.context,
            self._load.context.config,
            self._load.context.store,
        )
        is_converted = config.format is not FileFormat.PARQUET
        kinds = {FileKind.MIXED, FileKind.ROWS} if is_converted else {FileKind.MIXED}
        files = [file for file in results.files if file.kind in kinds]
        if not files:
            return results
        self._load.check_stopped()
        self._load.doing(f"converting {len(files)} files to {config.format}")
        directory = f"{self.folder}/rows"
        context.spark.reshape(
            f"{self._load.name}: writing {config.format}",
            [store.uri(file.path) for file in files if file.kind is FileKind.ROWS],
            [store.uri(file.path) for file in files if file.kind is FileKind.MIXED],
            store.uri(directory),
            self._target,
        )
        return reshaped(results, kinds, store, directory)

    def _counted(self, results: Staged) -> dict[str, int]:
        """The rows of each file by path, counted in the files themselves."""
        context = self._load.context
        store, format_ = context.store, context.config.format
        counted_files = {
            file.path: rows_in_file(store, file.path)
            for file in results.files
            if is_local(file.path)
        }
        paths = {
            store.uri(file.path): file for file in results.files if file.path not in counted_files
        }
        if not paths:
            return counted_files
        rows = [uri for uri, file in paths.items() if file.kind is FileKind.ROWS]
        dead_uris = [uri for uri, file in paths.items() if file.kind is FileKind.DEAD]
        activity = f"{self._load.name}: counting rows"
        counts = context.spark.count_rows(activity, rows, format_)
        counts |= context.spark.count_rows(activity, dead_uris, FileFormat.PARQUET)
        return counted_files | {paths[uri].path: count for uri, count in counts.items()}

    def _advanced(self, groups: Sequence[Sequence[Slice]], *, again: bool) -> Callable[[int], None]:
        """Reports progress, assuming that tasks run roughly in the order of their groups. Repeated
        slices were planned already."""
        offsets = (sum(piece.end - piece.first for piece in group) for group in groups)
        finished_offsets = [0, *accumulate(offsets)]
        table, watcher = self._load.name, self._load.context.watcher
        if not again:
            watcher.planned(table, len(groups), finished_offsets[-1])

        def advanced(tasks: int) -> None:
            tasks = min(tasks, len(groups))
            watcher.advanced(table, tasks, finished_offsets[tasks])

        return advanced
