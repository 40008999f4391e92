"""All that a load has Spark do. PySpark is imported with this module, and with none that every load
imports: a load of little never needs it, and is spared a third of a second and 10 MB.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from client.delivery import TopicPartition
from loader.config import FileFormat
from loader.hours.closing import Merge, Merged
from loader.landing.task_spec import LandingJob
from loader.rewriting.contents import count_rows, lowest_offsets
from loader.rewriting.files import check_avro
from loader.rewriting.merging import merge_hours
from loader.rewriting.reshaping import reshape
from loader.rewriting.row_format import RowFormat
from loader.run.hive import register
from loader.spark.job import land, working
from loader.store.hadoop import HadoopStore
from loader.store.store import Store
from loader.tables import Hour


class SparkWork:
    """By one session; any thread. Everything raises LoaderError, of one line, in which `on` says
    what was being done."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @property
    def cores(self) -> int:
        return self.session.sparkContext.defaultParallelism

    def check_avro(self) -> None:
        """That it can be written."""
        check_avro(self.session)

    def store(self, root: str) -> HadoopStore:
        """The session's credentials and settings hold."""
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
        """The rows of each file."""
        with working(on):
            return count_rows(self.session, uris, format_)

    def lowest_offsets(
        self, on: str, uris: Sequence[str], format_: FileFormat
    ) -> dict[TopicPartition, int]:
        """Of each partition that has a row in these files."""
        with working(on):
            return lowest_offsets(self.session, uris, format_)

    def merge_hours(
        self,
        on: str,
        store: Store,
        merges: Sequence[Merge],
        sizes: Mapping[str, int],
        *,
        directory: str,
        target: RowFormat,
    ) -> tuple[Merged, ...]:
        with working(on):
            return merge_hours(
                self.session, store, merges, sizes, directory=directory, target=target
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
        """In the metastore that Spark is configured for."""
        with working(on):
            register(self.session, database, table, store=store, target=target, hours=hours)

    def cancel_jobs(self) -> None:
        """Those that run now; nothing if Spark is gone."""
        with contextlib.suppress(Py4JError, PySparkException, OSError):
            self.session.sparkContext.cancelAllJobs()

    def end(self) -> None:
        """Executors and tokens are given back. Whatever is wrong with Spark, it has ended then."""
        with contextlib.suppress(Py4JError, PySparkException, OSError):
            self.session.stop()
