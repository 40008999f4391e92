"""One table, brought up to what the brokers hold: what a run does, in the order in which it must.

1. What a run before owes is made up for: its files made visible, its ledger written.
2. What is to be read is fixed, and what is missing named, before anything is read.
3. It is read and staged, and checked against what was written.
4. One manifest commits it. From here on it has happened, whoever dies.
5. Files and markers become visible, the ledger and the brokers are told.
6. Hours that are complete are merged and closed, by a manifest of their own.
7. What lies in the folders is held against what runs have committed.

A run that is only to check files does the first of these and the last.
"""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from client.brokers import Brokers
from client.errors import ClientError
from loader.asking_audit import ask_audit
from loader.commit.attempt import Attempt
from loader.commit.checksums import with_checksums
from loader.commit.history import History
from loader.commit.layout import run_folder
from loader.commit.next_state import load_manifest, next_run
from loader.commit.publishing import clean
from loader.commit.recalling import listed, recalled
from loader.commit.staging import not_remembered
from loader.errors import DamagedBatch, Interrupted, LoaderError, RunTaken, StoreError
from loader.first_run import check_untouched
from loader.hive import register
from loader.hours.close_manifest import Merged, close_manifest
from loader.hours.closing import Merge, merge_of, open_hours, to_close
from loader.hours.completeness import Completeness
from loader.hours.gone_files import as_found, files_left, gone_files
from loader.hours.rebuild_manifest import rebuild_manifest
from loader.job import working
from loader.ledger.entries import destination_of, in_ledger
from loader.manifests import Manifest
from loader.markers import hour_path
from loader.outcomes import PartitionRange, TableOutcome
from loader.planning.plan import Plan
from loader.publication import Publication
from loader.rewriting.counting import count_rows
from loader.rewriting.formats import RowFormat
from loader.rewriting.merging import merge_hours
from loader.staging_run import StagingRun
from loader.surroundings import Surroundings
from loader.table_check import TableCheck
from loader.table_columns import table_columns
from loader.table_form import TableForm, check_format, form_of, in_form, next_form
from loader.table_planning import planned
from loader.tables import Hour, TableSource


class TableRun:
    """Used once, by one thread."""

    def __init__(self, around: Surroundings, table: TableSource, brokers: Brokers) -> None:
        self.outcome = TableOutcome(table.name)
        self._around = around
        self._table = table
        self._brokers = brokers
        self._history = History(around.store, table.name)
        self._publication = Publication(
            self._history,
            brokers,
            around.registry,
            self.outcome,
            topics=[source.topic for source in table.topics],
            group=around.config.group,
            watcher=around.watcher,
        )
        self._check = TableCheck(around, table, brokers, self._history, self.outcome)
        self._completeness: Completeness | None = around.watermarks

    def run(self) -> None:
        """Raises LoaderError, ClientError or SchemaError; `outcome` has what was done before."""
        began = time.monotonic()
        try:
            self._run()
        finally:
            self.outcome.seconds = time.monotonic() - began

    def _run(self) -> None:
        around = self._around
        if not around.request.dry_run:
            self._publication.make_up()
            self._clean()
        if (asked := around.request.check_files) is not None:
            self._check.asked(asked or None)
            return
        latest = self._history.latest()
        self.outcome.destination = destination_of(latest, around.config)
        if latest is None:
            with self._unless_taken(latest):
                check_untouched(around.store, self._table.name)
        elif hours := around.request.rebuild:
            latest = recalled(around.store, latest, hours, around.now())
            latest = listed(around.store, latest, hours)
        check_format(self._table.name, form_of(latest), around.config.format)
        self._ask_audit(latest)
        found = self._planned(latest)
        if around.request.dry_run:
            return
        with self._unless_taken(latest):
            if not found.nothing_to_do:
                latest = self._read(latest, found)
            if latest is not None:
                self._register(latest)
                self._close_if_possible(latest)
        self._clean()
        self._check.young(latest)

    def _ask_audit(self, latest: Manifest | None) -> None:
        """Before anything is planned, as what it says is about what lies in the logs by then."""
        audit = self._around.audit
        if audit is None or self._around.request.dry_run:
            return
        try:
            self._completeness = ask_audit(audit, self._around, self._table, self._brokers, latest)
        except ClientError as error:
            self._warn(f"which hours are complete is not known: {error}")

    @contextmanager
    def _unless_taken(self, latest: Manifest | None) -> Iterator[None]:
        """Another loader that was faster has removed what this one had staged: that is what is
        wrong then, whatever seems to be."""
        mine = next_run(latest)
        try:
            yield
        except LoaderError as error:
            if self.outcome.run is None and mine in self._history.runs():
                raise RunTaken(
                    f"table {self._table.name}: another loader has committed run {mine} meanwhile"
                ) from error
            raise

    def _planned(self, latest: Manifest | None) -> Plan:
        found = planned(self._around, self._table, self._brokers, self._history, latest)
        self._tell(found)
        return found

    def _tell(self, found: Plan) -> None:
        self.outcome.records = found.records
        self.outcome.ranges = tuple(
            PartitionRange(each.topic, each.partition, each.first, each.end)
            for each in found.ranges
        )
        for gap in found.gaps:
            self._warn(f"accepted: {gap}")
        for topic in found.absent:
            self._warn(f"there is no topic {topic}")
        for topic, lost in found.never_seen.items():
            self._warn(f"topic {topic} is new here: {lost:,} offsets were deleted before, unread")

    def _read(self, latest: Manifest | None, found: Plan) -> Manifest:
        """The next run: what is new, or what takes the place of whole hours."""
        around, config, table = self._around, self._around.config, self._table.name
        columns = table_columns(around.registry, self._table, config.header)
        for warning in columns.warnings:
            self._warn(warning)
        former = form_of(latest)
        form = next_form(table, former, columns.columns, config.format)
        staging = StagingRun(around, self._table, next_run(latest), columns)
        with Attempt(self._history, staging.folder) as attempt:
            manifest = self._staged(latest, found, staging, form)
            self._count(manifest)
            return self._commit(in_form(manifest, form, former), latest, attempt)

    def _staged(
        self, latest: Manifest | None, found: Plan, staging: StagingRun, form: TableForm
    ) -> Manifest:
        """Read, checked, and told as a manifest."""
        around, config, table = self._around, self._around.config, self._table.name
        hours = around.request.rebuild
        known = () if latest is None or hours else latest.sources
        try:
            left = staging.stage(found.slices, known, hours)
        except DamagedBatch as error:
            self._check.damaged(error, found.topics)
            raise
        for warning in not_remembered(left):
            self._warn(warning)
        if latest is not None and hours:
            return rebuild_manifest(
                latest,
                found,
                left,
                hours,
                markers={
                    hour: [each.name for each in around.store.list(hour_path(table, hour))]
                    for hour in hours
                },
                accept_gap=around.request.accept_gap,
                now=around.now(),
                loader=around.loader,
                schema=form.columns,
                dead_share=config.dead_share,
                few_dead=config.few_dead,
                duplicate_share=config.duplicate_share,
                forget_after=int(config.forget_sources * 1000),
            )
        if latest is not None:
            landed = {hour for report in left.reports.values() for hour in report.rows}
            latest = recalled(around.store, latest, sorted(landed), around.now())
        return load_manifest(
            latest,
            found,
            left,
            table=table,
            now=around.now(),
            loader=around.loader,
            schema=form.columns,
            dead_share=config.dead_share,
            few_dead=config.few_dead,
            duplicate_share=config.duplicate_share,
            forget_after=int(config.forget_sources * 1000),
        )

    def _count(self, manifest: Manifest) -> None:
        rows = [each for each in manifest.adds if each.path.startswith(f"{self._table.name}/")]
        self.outcome.rows += sum(each.rows for each in rows)
        self.outcome.bytes += sum(each.bytes for each in rows)
        self.outcome.files += len(rows)
        self.outcome.late += sum(sum(each.late.values()) for each in manifest.passages)
        self.outcome.duplicates += manifest.duplicates
        dead = sum(manifest.dead.values())
        self.outcome.dead += dead
        records = self.outcome.rows + manifest.duplicates + dead
        if dead > self._around.config.dead_share * records:
            self._warn(
                f"{dead:,} of {records:,} records cannot be decoded, and are dead letters; fewer"
                f" than `few_dead: {self._around.config.few_dead}` stop nothing"
            )

    def _commit(self, manifest: Manifest, previous: Manifest | None, attempt: Attempt) -> Manifest:
        """Raises RunTaken if another loader was faster."""
        around, table = self._around, self._table.name
        around.go_on(table)
        manifest = in_ledger(manifest, previous, around.config)
        around.watcher.doing(table, f"committing run {manifest.run}")
        manifest = with_checksums(around.store, manifest)
        attempt.commit(manifest)
        self.outcome.run = manifest.run
        self._publication.publish(manifest)
        self._history.forget(around.config.keep_manifests)
        return manifest

    def _register(self, latest: Manifest) -> None:
        """In the metastore, if one is configured. The rows are there without it."""
        around, config, table = self._around, self._around.config, self._table.name
        if config.hive is None:
            return
        around.watcher.doing(table, "registering it in Hive")
        try:
            with working(f"{table}: registering it in Hive"):
                register(
                    around.spark,
                    config.hive.database,
                    table,
                    store=around.store,
                    target=RowFormat(config.format, config.compression, latest.schema),
                    hours=latest.hours,
                )
        except LoaderError as error:
            self._warn(str(error))

    def _close_if_possible(self, latest: Manifest) -> None:
        """What goes wrong after rows were committed undoes nothing, and is tried again."""
        committed = self.outcome.run
        try:
            self._close(latest)
        except (RunTaken, Interrupted):
            raise
        except LoaderError as error:
            if committed is None:
                raise
            self._warn(f"no hour was closed: {error}")

    def _close(self, latest: Manifest) -> None:
        """Hours of which nothing more will come."""
        around, table = self._around, self._table.name
        if self._completeness is None:
            return
        now = around.now()
        states = {each.topic: each for each in latest.topics}
        topics = {source.topic: states.get(source.topic) for source in self._table.topics}
        events = bool(latest.header)
        verdicts = {
            hour: verdict
            for hour in open_hours(latest, now)
            if (verdict := self._completeness.judge(topics, hour, events=events)) is not None
        }
        closings = to_close(latest, verdicts, now, around.config.completeness)
        if not closings:
            return
        around.watcher.doing(table, f"closing {len(closings)} hours")
        complete = [each.hour for each in closings if each.complete]
        with_rows = [hour for hour in complete if hour in latest.hours]
        sizes = {
            entry.path: entry.size
            for hour in with_rows
            for entry in around.store.list(hour_path(table, hour))
        }
        latest = self._as_found(latest, with_rows, sizes)
        folder = run_folder(table, next_run(latest), uuid.uuid4().hex)
        with Attempt(self._history, folder) as attempt:
            merged = self._merged(latest, with_rows, sizes, folder)
            manifest = close_manifest(latest, closings, merged, now=now, loader=around.loader)
            self._commit(manifest, latest, attempt)
        self.outcome.complete += complete
        self.outcome.incomplete += [each.hour for each in closings if not each.complete]

    def _as_found(
        self, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
    ) -> Manifest:
        """Without files that somebody has taken away."""
        around, table = self._around, self._table.name
        gone = gone_files(latest, hours, sizes)
        for hour, files in gone.items():
            self._warn(
                f"{hour_path(table, hour)}: {len(files)} of its files were taken away, such as"
                f" {files[0].rpartition('/')[2]}; it is without their rows, until it is rebuilt"
            )
        left = files_left(latest, gone)
        uris = {path: around.store.uri(path) for files in left.values() for path in files}
        with working(f"{table}: counting what is left"):
            rows = count_rows(around.spark, list(uris.values()), around.config.format)
        return as_found(latest, left, sizes, {path: rows[uri] for path, uri in uris.items()})

    def _merged(
        self, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int], folder: str
    ) -> tuple[Merged, ...]:
        """Their small files as few large ones, staged in the folder."""
        around, table, store = self._around, self._table.name, self._around.store
        merges: list[Merge] = []
        for hour in hours:
            files = latest.hours[hour].files
            if (found := merge_of(hour, files, sizes, around.config.completeness)) is not None:
                merges.append(found)
        if not merges:
            return ()
        around.go_on(table)
        target = RowFormat(around.config.format, around.config.compression, latest.schema)
        try:
            with working(f"{table}: merging"):
                merged = merge_hours(
                    around.spark, store, merges, sizes, directory=f"{folder}/merged", target=target
                )
        except LoaderError as error:
            around.go_on(table)
            # An hour whose files cannot become fewer is complete all the same.
            self._warn(f"small files stay as they are: {error}")
            return ()
        self.outcome.merged_files += sum(len(each.merge.files) for each in merged)
        return merged

    def _clean(self) -> None:
        try:
            clean(self._around.store, self._table.name)
        except StoreError as error:
            self._warn(f"not all that runs have left could be removed: {error}")

    def _warn(self, text: str) -> None:
        self.outcome.warnings.append(text)
        self._around.watcher.warned(self._table.name, text)
