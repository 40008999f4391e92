"""Loads in the tests' own Spark session, and what came of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from pyspark.sql import Row, SparkSession

from client.connection.brokers import Brokers
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from ledger.names import LEDGER_TOPIC
from loader.config import CompletenessConfig, LoaderConfig, Tasks
from loader.errors import SparkFailed
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome
from loader.run.spark_work import SparkWork
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient

# Hours of long ago, as those of most tests are, are closed at once. Those of the last two days, in
# which there is nothing, are left alone: so it does not matter when an hour ends.
LONG_AGO: Final = CompletenessConfig(settle=72 * 3600.0, deadline=100 * 365 * 86_400.0)

# Who reads a table's records: tasks of Spark's, or the driver, if they are few.
EITHER_WAY: Final = {"by Spark": Tasks(without_spark=0), "without Spark": Tasks()}


@dataclass
class Listening:
    """A watcher that remembers what it was told."""

    steps: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    records: int = 0

    def planned(self, table: str, tasks: int, records: int) -> None:
        self.records += records

    def advanced(self, table: str, tasks: int, records: int) -> None:
        pass

    def doing(self, table: str, step: str) -> None:
        self.steps.append(f"{table}: {step}")

    def warned(self, table: str, text: str) -> None:
        self.warnings.append(f"{table}: {text}")

    def ended(self, outcome: TableOutcome) -> None:
        pass

    def finishing(self, step: str) -> None:
        self.steps += [step] * bool(step)


def outcome_of(
    spark: SparkSession, config: LoaderConfig, request: LoadRequest | None = None
) -> TableOutcome:
    """Of a load's only table, whatever became of it."""
    (outcome,) = load(config, request or LoadRequest(), lambda: SparkWork(spark), Listening())
    return outcome


def no_spark() -> NoReturn:
    raise SparkFailed("nobody may need it")


def load_once(
    spark: SparkSession, config: LoaderConfig, request: LoadRequest | None = None
) -> TableOutcome:
    """The outcome of a load's only table, in which nothing went wrong."""
    outcome = outcome_of(spark, config, request)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def rows_of(spark: SparkSession, config: LoaderConfig, table: str) -> list[Row]:
    """What a plain reader sees."""
    return spark.read.parquet(f"{config.root}/{table}").collect()


def folder_of(config: LoaderConfig, *below: str) -> Path:
    """Of a root on this machine."""
    return Path(config.root.removeprefix("file://"), *below)


def ledger_entries(config: LoaderConfig, *names: str) -> list[dict[str, Any]]:
    """Those that name this topic, or anything else."""
    with (
        Brokers(config.bootstrap) as brokers,
        RegistryClient(config.registry) as registry,
        Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer,
    ):
        decoder = Decoder(registry.schema, built_in(LEDGER))
        values = [each.record.value or b"" for each in consumer]
        return [
            decoder.decode(value)
            for value in values
            if any(each.encode() in value for each in names)
        ]
