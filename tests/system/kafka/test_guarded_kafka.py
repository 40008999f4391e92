"""A guarded Apache Kafka, and a registry behind locks: to a green report by every mechanism, and
with each right missing for a while.

Programs have the rights that the how-to lists, and no others. They all log in by the mechanism, the
loader's driver and executors included. In `make test` each mechanism has one version of Apache
Kafka; with HYPOTHESIS_PROFILE=fuzz each has both, and so have the rights.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from client.security import Mechanism
from harness.apache_kafka import NEWEST, VERSION, kafka_classpath, why_no_kafka
from harness.guarded_kafka import GuardedKafka
from tests.system.kafka.guarded_pipeline import GuardedPipeline
from tests.system.kafka.rights import RIGHTS, USERS
from tests.system.kafka.without_a_right import WITHOUT

LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
LINES: Final = 300
SETTINGS: Final = {"auto.create.topics.enable": "false"}
BY_CERTIFICATE: Final = None
ALL: Final = (*Mechanism, BY_CERTIFICATE)
IN_SHORT: Final = {
    VERSION: (Mechanism.SCRAM_SHA_256, Mechanism.OAUTHBEARER),
    NEWEST: (Mechanism.PLAIN, Mechanism.SCRAM_SHA_512, BY_CERTIFICATE),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KafkaOf = Callable[[str], GuardedKafka]


@pytest.fixture(scope="module")
def kafka_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaOf]:
    """One of a version, started when it is first wanted."""
    with ExitStack() as ends:

        @functools.cache
        def started(version: str) -> GuardedKafka:
            if kafka_classpath(version) is None:
                pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(version)}")
            directory = tmp_path_factory.mktemp("guarded")
            made = GuardedKafka(directory, USERS, settings=SETTINGS, version=version)
            guarded = ends.enter_context(made)
            guarded.allow(*(each.rule for each in RIGHTS))
            return guarded

        yield started


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("version", "mechanism"),
    [(each, how) for each in IN_SHORT for how in (ALL if LONG else IN_SHORT[each])],
    ids=lambda each: each or "certificate",
)
def test_every_program_gets_in_and_the_report_is_green(
    kafka_of: KafkaOf,
    version: str,
    mechanism: Mechanism | None,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    topic = f"shop-{mechanism or 'certificate'}".lower()
    pipeline = GuardedPipeline(kafka_of(version), tmp_path, topic, mechanism)
    pipeline.make_topics()
    pipeline.write(LINES)
    with pipeline:
        pipeline.wait_until_counted()
        pipeline.load(spark)
        pipeline.check_green()


@pytest.mark.fuzz
@pytest.mark.parametrize("version", IN_SHORT if LONG else [NEWEST])
def test_whoever_lacks_a_right_says_so_and_loses_nothing(
    kafka_of: KafkaOf, version: str, spark: SparkSession, tmp_path: Path
) -> None:
    """And goes on when it is there."""
    assert {each.key for each in RIGHTS} == WITHOUT.keys()
    guarded = kafka_of(version)
    pipeline = GuardedPipeline(guarded, tmp_path, "shop-of-rights", Mechanism.PLAIN)
    pipeline.make_topics()
    pipeline.write(LINES)
    with pipeline:
        pipeline.wait_until_counted()
        for right in RIGHTS:
            pipeline.listen()
            with guarded.without(right.rule) as allow_again:
                WITHOUT[right.key](pipeline, right, allow_again, spark)
        pipeline.load(spark)
        pipeline.check_green()
