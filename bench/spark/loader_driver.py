"""`python -m bench.spark.loader_driver`: loads by Penstock's loader in one Spark session."""

import time

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
        """Loads one table."""
        spark = self._spark
        assert spark is not None, "never started"
        start_time = time.perf_counter()
        (outcome,) = load(
            msgspec.convert(config, LoaderConfig), LoadRequest(), lambda: spark, Unwatched()
        )
        seconds = time.perf_counter() - start_time
        if outcome.error is not None:
            raise outcome.error
        return {"seconds": seconds}

    def end(self) -> None:
        if self._spark is not None:
            self._spark.end()
            end_jvm()


def main() -> None:
    driver = _Driver()
    try:
        serve({"start": driver.start, "load": driver.load})
    finally:
        driver.end()


if __name__ == "__main__":
    main()
