"""A guarded Apache Kafka, and a registry behind locks: to a green report, with each right missing
for a while; and by every mechanism.

Programs have the rights that the how-to lists, and no others. They all log in by the mechanism, the
loader's driver and executors included. That our client gets in by each mechanism is tried in
tests/client/test_into_secured_kafka.py, so all programs do it by one in `make test`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from client.connection.security import Mechanism
from harness.kafka.apache_kafka import kafka_classpath, why_no_kafka
from harness.kafka.guarded_kafka import GuardedKafka
from tests.system.conftest import KAFKA_VERSIONS
from tests.system.kafka.guarded_pipeline import GuardedPipeline
from tests.system.kafka.rights import RIGHTS, USERS
from tests.system.kafka.without_a_right import WITHOUT, Missing

LINES: Final = 300
SETTINGS: Final = {"auto.create.topics.enable": "false"}
LOGINS: Final = [each for each in Mechanism if each is not Mechanism.GSSAPI]
BY_CERTIFICATE: Final = None

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module", params=KAFKA_VERSIONS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardedKafka]:
    version: str = request.param
    if kafka_classpath(version) is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(version)}")
    directory = tmp_path_factory.mktemp("guarded")
    with GuardedKafka(directory, USERS, settings=SETTINGS, version=version) as guarded:
        guarded.allow(*(each.rule for each in RIGHTS))
        yield guarded


@pytest.mark.parametrize(
    "mechanism", [*LOGINS, BY_CERTIFICATE], ids=lambda each: each or "certificate"
)
def test_every_program_gets_in_and_the_report_is_green(
    guarded: GuardedKafka, mechanism: Mechanism | None, spark: SparkSession, tmp_path: Path
) -> None:
    topic = f"shop-{mechanism or 'certificate'}".lower()
    pipeline = GuardedPipeline(guarded, tmp_path, topic, mechanism)
    pipeline.make_topics()
    pipeline.write(LINES)
    with pipeline:
        pipeline.wait_until_counted()
        pipeline.load(spark)
        pipeline.check_green()


def test_whoever_lacks_a_right_says_so_and_loses_nothing(
    guarded: GuardedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    """And goes on when it is there."""
    assert {each.key for each in RIGHTS} == WITHOUT.keys()
    pipeline = GuardedPipeline(guarded, tmp_path, "shop-of-rights", Mechanism.SCRAM_SHA_512)
    pipeline.make_topics()
    pipeline.write(LINES)
    with pipeline:
        pipeline.wait_until_counted()
        for right in RIGHTS:
            pipeline.listen()
            with guarded.without(right.rule) as allow_again:
                WITHOUT[right.key](Missing(pipeline, right, allow_again, spark))
        pipeline.load(spark)
        pipeline.check_green()
