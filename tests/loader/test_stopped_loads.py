"""Whole loads that are stopped at every step of the store, one after the other: each takes up what
the one before it left, and is stopped one step later, until one reaches its end.

Between them events come: new ones, late ones for hours that were closed, and duplicates.
"""

import threading
from contextlib import closing

import msgspec
import pytest
from pyspark.sql import SparkSession

from client.brokers import Brokers
from loader.commit.history import History
from loader.config import CompletenessConfig, LoaderConfig, Tasks
from loader.hours.ledger_reading import read_watermarks
from loader.ledger.observations import Observations
from loader.run.load import run_table
from loader.run.load_context import LoadContext, LoadRequest
from loader.run.spark_work import SparkWork
from loader.store.local import LocalStore
from loader.tables import SourceTopic, TableSource
from schemas.registry_client import RegistryClient
from tests.loader.application import BEGAN, HOUR, Application, landed
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, stop
from tests.loader.loads import EITHER_WAY, Listening, rows_of

END = BEGAN + 3 * HOUR


def load_up_to(spark: SparkSession, config: LoaderConfig, step: int) -> bool:
    """Whether the load reached its end before that step."""
    (topic,) = config.topics
    store = SteppingStore(LocalStore(config.root), At(step, stop))
    with (
        Brokers(config.bootstrap, client_id="test") as brokers,
        closing(RegistryClient(config.registry)) as registry,
    ):
        marks = read_watermarks(
            brokers, registry, LocalStore(config.root), config, topics=[topic], now=END
        )
        context = LoadContext(
            config=config,
            request=LoadRequest(),
            start_spark=lambda: SparkWork(spark),
            store=store,
            registry=registry,
            watermarks=marks,
            audit=None,
            observations=Observations(config, store),
            watcher=Listening(),
            stopping=threading.Event(),
            clock=lambda: END / 1000,
        )
        table = TableSource(name=topic, topics=(SourceTopic(topic=topic, cluster="local"),))
        try:
            outcome = run_table(context, table)
        except StoppedHere:
            return False
    if outcome.error is not None:
        raise outcome.error
    return True


def write(application: Application, hour: int) -> None:
    """Events of this hour in both partitions, a late one, and one once more."""
    application.write(3, time=BEGAN + hour * HOUR)
    application.write(2, time=BEGAN + hour * HOUR, partition=1)
    application.write(1, time=BEGAN)
    source, seq = application.written[-2]
    application.send(BEGAN + hour * HOUR + 1, source, seq, partition=1)
    application.flush()


@pytest.mark.slow
@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param(EITHER_WAY["by Spark"], id="by Spark", marks=pytest.mark.long),
        pytest.param(EITHER_WAY["without Spark"], id="without Spark"),
    ],
)
def test_stopped_at_every_step(
    spark: SparkSession, application: Application, config: LoaderConfig, tasks: Tasks
) -> None:
    at_once = CompletenessConfig(settle=0)
    config = msgspec.structs.replace(config, completeness=at_once, tasks=tasks)
    step = 0
    write(application, step % 3)
    # What is there after a step is there before the next one, too.
    while not load_up_to(spark, config, 2 * step):
        step += 1
        write(application, step % 3)
    assert step > 10
    assert landed(rows_of(spark, config, application.topic)) == sorted(application.written)
    history = History(LocalStore(config.root), application.topic)
    assert history.unpublished() == []
    latest = history.latest()
    assert latest is not None
    assert all(state.complete >= 0 for state in latest.hours.values())
    assert sum(state.rows for state in latest.hours.values()) == len(application.written)
