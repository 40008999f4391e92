"""`python -m bench.spark.loader_driver`: loads by Penstock's loader in one Spark session."""

import time
from collections.abc import Callable

import msgspec

from bench.spark.driver_commands import Json, serve
from loader.config import LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome
from loader.run.spark_work import SparkWork
from loader.spark.session import end_jvm, open_session
from pyspark_penstock import LandingSource


class Unwatched:
    """A watcher that ignores all reports."""

    def planned(self, table: str, tasks: int, records: int) -> None:
        pass

    def advanced(self, table: str, tasks: int, records: int) -> None:
        pass

    def doing(self, table: str, step: str) -> None:
        pass

    def finishing(self, step: str) -> None:
        pass

    def warned(self, table: str, text: str) -> None:
        pass

    def ended(self, outcome: TableOutcome) -> None:
        pass


class _Driver:
    def __init__(self) -> None:
        self._spark: SparkWork | None = None

    def start(self, config: Json) -> Json:
        session = open_session(msgspec.convert(config, LoaderConfig), [LandingSource], None)
        self._spark = SparkWork(session)
        return {}

    def load(self, config: Json) -> Json:
        return self._load(config, time.time)

    def load_at(self, arguments: Json) -> Json:
        """Loads all tables as if it were a certain time, in seconds."""
        return self._load(arguments["config"], lambda: float(arguments["at"]))

    def content(self, arguments: Json) -> Json:
        """The number of files and folders below a folder, and the files' size."""
        assert self._spark is not None, "never started"
        context = self._spark.session.sparkContext
        assert context._jvm is not None
        path = context._jvm.org.apache.hadoop.fs.Path(arguments["uri"])
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        summary = files.getContentSummary(path)
        return {
            "files": summary.getFileCount(),
            "folders": summary.getDirectoryCount(),
            "bytes": summary.getLength(),
        }

    def _load(self, config: Json, clock: Callable[[], float]) -> Json:
        spark = self._spark
        assert spark is not None, "never started"
        start_time = time.perf_counter()
        outcomes = load(
            msgspec.convert(config, LoaderConfig),
            LoadRequest(),
            lambda: spark,
            Unwatched(),
            clock=clock,
        )
        seconds = time.perf_counter() - start_time
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return {
            "seconds": seconds,
            "rows": sum(outcome.rows for outcome in outcomes),
            "complete": sum(len(outcome.complete) for outcome in outcomes),
        }

    def end(self) -> None:
        if self._spark is not None:
            self._spark.end()
            end_jvm()


def main() -> None:
    driver = _Driver()
    try:
        serve(
            {
                "start": driver.start,
                "load": driver.load,
                "load_at": driver.load_at,
                "content": driver.content,
            }
        )
    finally:
        driver.end()


if __name__ == "__main__":
    main()
