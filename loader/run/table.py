"""A run of one table: the steps that bring it up to date with the brokers, in their order.

1. An interrupted earlier run is completed: its files made visible, its ledger entries written.
2. The plan is made: what to read, and which gaps there are. Nothing has been read yet.
3. Events are read and staged, the staged files verified, and the batches compared with what agents
   have signed of them; without new events, those batches that wait for it.
4. One manifest commits the run. From here on it has happened, even if the process dies.
5. Files and markers become visible; ledger entries and consumer offsets are written.
6. Complete hours are merged and closed, by a manifest of their own.
7. Older hours get the table's columns, by manifests of their own.
8. Open hours that have ended and have many small files are merged, likewise.
9. Complete hours that lack a certificate get one, likewise.
10. The files in the folders are compared with what runs have committed.

A run that only checks files consists of the first step and the last; one that compacts the table
has runs that rewrite hours between these.
"""

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from client.connection.brokers import Brokers
from loader.checks.comparison import NO_HOUR
from loader.commit.commit_log import (
    Attempt,
    CommitLog,
    ListedRuns,
    check_untouched,
    with_checksums,
)
from loader.commit.layout import run_folder
from loader.commit.next_state import next_run
from loader.commit.old_hours import listed, recalled
from loader.commit.publishing import Publication, clean
from loader.errors import DamagedBatch, Interrupted, LoaderError, RunTaken, StoreError, load_command
from loader.hours.closing import opened_hours
from loader.hours.completeness import Completeness
from loader.ledger.entries import destination_of, in_ledger
from loader.ledger.origins import origins_of
from loader.planning.plan import Plan
from loader.rewriting.row_format import RowFormat
from loader.run.load_context import Compaction, LoadContext, TableLoad
from loader.run.outcomes import TableOutcome
from loader.run.signed_batches import SignedBatches
from loader.run.table_certificates import TableCertificates
from loader.run.table_check import TableCheck
from loader.run.table_compaction import compact, merge_open_hours
from loader.run.table_form import check_format, form_of
from loader.run.table_hours import close_hours, completeness_of
from loader.run.table_reading import TableReading, planned
from loader.run.table_upgrade import upgrade_few, upgrade_on_request
from loader.values.manifests import Manifest
from loader.values.tables import HOUR_MILLIS, Hour, TableSource


class TableRun:
    """One run of one table. Used once, by one thread."""

    def __init__(self, context: LoadContext, table: TableSource, brokers: Brokers) -> None:
        self.outcome = TableOutcome(table.name)
        self._commit_log = CommitLog(context.store, table.name)
        self._load = TableLoad(context, table, brokers, self._commit_log, self.outcome)
        self._publication = Publication(
            self._commit_log,
            brokers,
            context.registry,
            topics=self._load.topics,
            group=context.config.group,
            key=context.signing_key,
            doing=self._load.doing,
            warn=self._load.warn,
        )
        self._check = TableCheck(self._load)
        self._signed = SignedBatches(self._load)
        self._not_upgraded = ""  # the reason, if hours were not upgraded on request
        self._committed: Manifest | None = None  # the newest run that this one made

    def run(self) -> None:
        """Runs all steps. Raises LoaderError, ClientError or SchemaError; `outcome` then has the
        steps that were completed."""
        started_at = time.monotonic()
        try:
            self._run()
        finally:
            self.outcome.seconds = time.monotonic() - started_at

    def _run(self) -> None:
        load, context = self._load, self._load.context
        runs = self._commit_log.listed()
        if not context.request.dry_run:
            self._publish_unfinished(runs)
            self._clean(runs)
        if (hours_to_check := context.request.check_files) is not None:
            self._check.on_request(hours_to_check or None)
            return
        latest = self._commit_log.latest(runs)
        if (compaction := context.request.compaction) is not None:
            self._compact(latest, compaction)
            return
        previously_complete: tuple[Hour, ...] = ()
        self.outcome.destination = destination_of(latest, context.config)
        if latest is None:
            with self._unless_taken(latest):
                check_untouched(context.store, load.name)
        elif hours := context.request.rebuild:
            latest = recalled(context.store, latest, hours, context.now())
            latest = listed(context.store, latest, hours)
        check_format(load.name, form_of(latest), context.config.format)
        completeness = completeness_of(load, latest)
        plan = planned(load, latest)
        if context.request.dry_run:
            return
        with self._unless_taken(latest):
            before = latest
            if not plan.nothing_to_do:
                latest = self._read(latest, plan)
                previously_complete = opened_hours(before, latest)
            elif latest is not None:
                latest = self._compare_waiting(latest)
            if latest is not None:
                self._register(latest)
                newest = self._close_if_possible(latest, completeness, previously_complete)
                if newest is not None:
                    newest = self._upgrade(before, newest)
                if newest is not None:
                    self._merge_open(newest)
                    self._certify(self._committed or newest)
                self._note_rebuilt(latest)
        try:
            self._check.young(self._committed or latest)
        finally:
            self._signed.check(self._committed or latest)
        if self._not_upgraded:
            raise LoaderError(f"table {load.name}: {self._not_upgraded}")

    def _compact(self, latest: Manifest | None, compaction: Compaction) -> None:
        """Joins small files. The manifests of all runs stay until their files were checked, since
        the check learns from them which files there are."""
        load, context = self._load, self._load.context
        if latest is None:
            load.warn("nothing to compact: the table was never loaded")
            return
        check_format(load.name, form_of(latest), context.config.format)
        with self._unless_taken(latest):
            failure = compact(load, latest, compaction, self._commit)
        if context.request.dry_run:
            return
        self._check.young(self._committed or latest)
        self._commit_log.forget(context.config.keep_manifests)
        if failure:
            raise LoaderError(f"table {load.name}: {failure}")

    def _register(self, latest: Manifest) -> None:
        """Registers the table in the metastore, if one is configured. Failures are warnings, since
        the rows are there without it."""
        load, context, config = self._load, self._load.context, self._load.context.config
        if config.hive is None:
            return
        load.doing("registering the table in Hive")
        try:
            context.spark.register(
                f"{load.name}: registering the table in Hive",
                config.hive.database,
                load.name,
                store=context.store,
                target=RowFormat(config.format, config.compression, latest.schema),
                hours=latest.hours,
            )
        except LoaderError as error:
            load.warn(str(error))

    def _publish_unfinished(self, listed: ListedRuns) -> None:
        try:
            self._publication.publish_unfinished(listed)
        finally:
            self.outcome.rolled_forward = self._publication.rolled_forward

    @contextmanager
    def _unless_taken(self, latest: Manifest | None) -> Iterator[None]:
        """Turns errors into RunTaken if another loader has committed this run: it has removed what
        this one staged, which causes all kinds of errors."""
        run = next_run(latest)
        try:
            yield
        except LoaderError as error:
            if self.outcome.run is None and run in self._commit_log.runs():
                raise RunTaken(
                    f"table {self._load.name}: another loader committed run {run} meanwhile"
                ) from error
            raise

    def _read(self, latest: Manifest | None, plan: Plan) -> Manifest:
        """Makes the next run, of new events or of hours to rebuild."""
        reading = TableReading(self._load, latest, plan, self._signed)
        with Attempt(self._commit_log, reading.folder) as attempt:
            try:
                manifest = reading.manifest()
            except DamagedBatch as error:
                self._check.damaged(error, plan.topics)
                raise
            committed = self._commit(manifest, latest, attempt)
        self._signed.committed(committed)
        return committed

    def _compare_waiting(self, latest: Manifest) -> Manifest:
        """Compares batches that earlier loads have read, and marks the hours of what differs."""
        manifest = self._signed.compare_waiting(latest)
        if manifest is not None:
            folder = run_folder(self._load.name, manifest.run, uuid.uuid4().hex)
            with Attempt(self._commit_log, folder) as attempt:
                latest = self._commit(manifest, latest, attempt)
        self._signed.committed()
        return latest

    def _commit(self, manifest: Manifest, previous: Manifest | None, attempt: Attempt) -> Manifest:
        """Commits and publishes a run. Raises RunTaken if another loader was faster."""
        context = self._load.context
        self._load.check_stopped()
        topics = self._load.topics if context.config.ledger else ()
        origins = origins_of(self._load.brokers, topics)
        key = context.key_fingerprint
        manifest = in_ledger(manifest, previous, context.config, origins, key)
        former_key = "" if previous is None or previous.ledger is None else previous.ledger.key
        if former_key and key != former_key and manifest.ledger_entries:
            self._load.warn(
                f"the ledger entries of this table were proven with another key, {former_key}: the"
                " audit rejects those of another one. Loads of a table need one key: copy it to"
                " this host (`signing_key`)"
            )
        self._load.doing(f"committing run {manifest.run}")
        manifest = with_checksums(context.store, manifest)
        attempt.commit(manifest)
        self.outcome.run = manifest.run
        self._committed = manifest
        self._publication.publish(manifest, is_new=True)
        if context.request.compaction is None:
            self._commit_log.forget(context.config.keep_manifests)
        return manifest

    def _close_if_possible(
        self,
        latest: Manifest,
        completeness: Completeness | None,
        previously_complete: Sequence[Hour],
    ) -> Manifest | None:
        """Closes hours, and returns the newest manifest. If rows were committed before, errors are
        only warnings, and the next load tries again; the result is None then."""
        if completeness is None and not previously_complete:
            return latest
        committed_run = self.outcome.run
        try:
            return close_hours(
                self._load,
                latest,
                completeness,
                previously_complete,
                commit=self._commit,
                not_compared=self._signed.not_compared,
            )
        except (RunTaken, Interrupted):
            raise
        except LoaderError as error:
            if committed_run is None:
                raise
            self._load.warn(f"no hour was closed: {error}")
            return None

    def _upgrade(self, before: Manifest | None, latest: Manifest) -> Manifest | None:
        """Gives the table's columns to hours that lack them: to all on request, otherwise to few,
        and then errors are only warnings. Returns the newest manifest; None after a request or an
        error."""
        if self._load.context.request.upgrade_schema:
            self._not_upgraded = upgrade_on_request(self._load, latest, self._commit)
            return None
        with self._as_warning("older hours keep the columns of a former schema"):
            return upgrade_few(self._load, before, latest, self._commit)
        return None

    def _merge_open(self, latest: Manifest) -> None:
        """Merges small files of open hours. Errors are only warnings."""
        with self._as_warning("small files of open hours were not merged"):
            merge_open_hours(self._load, latest, self._commit)

    def _certify(self, latest: Manifest) -> None:
        """Makes certificates that complete hours lack. Errors are only warnings."""
        with self._as_warning("complete hours got no certificates"):
            TableCertificates(self._load).make_owed(latest, self._commit)

    @contextmanager
    def _as_warning(self, effect: str) -> Iterator[None]:
        """Turns errors of a step that a load can do without into warnings."""
        try:
            yield
        except (RunTaken, Interrupted):
            raise
        except LoaderError as error:
            self._load.warn(f"{effect}: {error}")

    def _note_rebuilt(self, latest: Manifest) -> None:
        outcome, now = self.outcome, self._load.context.now()
        config_options = self._load.context.request.config_options
        outcome.next_load = load_command(self._load.name, config_options)
        for hour in latest.rebuilt:
            state = latest.hours.get(hour, NO_HOUR)
            outcome.rebuilt[hour] = state.rows
            if hour + HOUR_MILLIS > now:
                outcome.waiting[hour] = "the end of the hour"
            elif hour not in outcome.complete:
                outcome.waiting.setdefault(hour, state.lack or "a later load")

    def _clean(self, listed: ListedRuns) -> None:
        try:
            clean(self._load.context.store, self._load.name, listed)
        except StoreError as error:
            self._load.warn(f"cannot remove all files of unfinished runs: {error}")
