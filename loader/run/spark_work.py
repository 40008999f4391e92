"""All work that a load gives to Spark. This module imports PySpark, and a load imports it only if
it needs Spark, which saves a small load a third of a second and 10 MB.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from loader.config import FileFormat
from loader.landing.task_spec import LandingJob
from loader.rewriting.contents import count_rows, partition_rows
from loader.rewriting.file_columns import of_other_columns
from loader.rewriting.files import check_avro, rewriting_session
from loader.rewriting.merging import rewrite_hours
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import RowFormat
from loader.run.hive import register
from loader.spark.job import land, working
from loader.store.hadoop import HadoopStore
from loader.store.store import Store
from loader.values.replaced_rows import PartitionRows, Readable
from loader.values.rewrites import Rewrite, Rewritten
from loader.values.tables import Hour


class SparkWork:
    """Gives work to one Spark session, from any thread. Methods raise LoaderError with a one-line
    message; `on` describes the work for that message."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @property
    def cores(self) -> int:
        return self.session.sparkContext.defaultParallelism

    def check_avro(self) -> None:
        check_avro(self.session)

    def store(self, root: str) -> HadoopStore:
        """The store, with the session's credentials and settings."""
        context = self.session.sparkContext
        return HadoopStore(root, context._gateway, context._jsc.hadoopConfiguration())

    def land(self, job: LandingJob, directory: str, advanced: Callable[[int], None]) -> None:
        land(self.session, job, directory, advanced)

    def reshape(
        self, on: str, rows: Sequence[str], mixed: Sequence[str], directory: str, target: RowFormat
    ) -> None:
        with working(on):
            reshape(self.session, rows, mixed, directory, target)

    def count_rows(self, on: str, uris: Sequence[str], format_: FileFormat) -> dict[str, int]:
        with working(on):
            return count_rows(self.session, uris, format_)

    def partition_rows(
        self, on: str, uris: Sequence[str], format_: FileFormat, readable: Readable
    ) -> list[PartitionRows]:
        with working(on):
            return partition_rows(self.session, uris, format_, readable)

    def of_other_columns(
        self, on: str, store: Store, paths: Sequence[str], target: RowFormat
    ) -> list[str]:
        with working(on):
            return of_other_columns(rewriting_session(self.session), store, paths, target)

    def rewrite_hours(
        self,
        on: str,
        store: Store,
        rewrites: Sequence[Rewrite],
        sizes: Mapping[str, int],
        *,
        directory: str,
        target: RowFormat,
        compares_all: bool,
    ) -> tuple[Rewritten, ...]:
        with working(on):
            return rewrite_hours(
                self.session,
                store,
                rewrites,
                sizes,
                directory=directory,
                target=target,
                compares_all=compares_all,
            )

    def register(
        self,
        on: str,
        database: str,
        table: str,
        *,
        store: Store,
        target: RowFormat,
        hours: Iterable[Hour],
    ) -> None:
        """Registers the table in the metastore that Spark is configured for."""
        with working(on):
            register(self.session, database, table, store=store, target=target, hours=hours)

    def cancel_jobs(self) -> None:
        """Cancels running jobs; does nothing if Spark is gone."""
        with contextlib.suppress(Py4JError, PySparkException, OSError):
            self.session.sparkContext.cancelAllJobs()

    def end(self) -> None:
        """Stops Spark, and releases executors and tokens, even if Spark has failed."""
        with contextlib.suppress(Py4JError, PySparkException, OSError):
            self.session.stop()
