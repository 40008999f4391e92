"""The examples of docs/spark.md, run as they stand there, but for addresses and folders."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.loader.application import BEGAN, Application, event_schema
from tests.loader.source.starting import until_it_starts

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
FIRST, WINDOWED_COUNT, JOIN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MINUTE = 60_000
ORDER = ({"name": "user", "type": "string"}, {"name": "number", "type": "long"})


@pytest.fixture(scope="module")
def shop(
    running_broker: BrokerProcess, running_registry: RegistryProcess
) -> Iterator[tuple[Application, Application]]:
    """Views of seven users, one every ten seconds for half an hour; some of them order."""
    brokers, registry = running_broker.bootstrap, running_registry.url
    views = Application(brokers, registry, "shop.page_views", partitions=2)
    orders = Application(brokers, registry, "shop.orders", schema=event_schema(ORDER, "shop.Order"))
    for seq in range(180):
        fields = {**views.view(seq), "url": f"/item/{seq % 5}"}
        views.send(BEGAN + seq * 10_000, "s", seq, partition=seq % 2, fields=fields)
    for number, minute in enumerate((5, 40, 400)):
        fields = {"user": f"u{number}", "number": number}
        orders.send(BEGAN + minute * MINUTE, "o", number, fields=fields)
    views.flush()
    orders.flush()
    yield views, orders
    views.close()
    orders.close()


def run(example: str, broker: BrokerProcess, registry: RegistryProcess, folder: Path) -> None:
    assert "/data/" in example or example == FIRST
    text = example.replace("127.0.0.1:9092", broker.bootstrap)
    text = text.replace("http://127.0.0.1:8081", registry.url)
    code = compile(text.replace("/data/", f"{folder}/"), "docs/spark.md", "exec")
    until_it_starts(lambda: exec(code, {}))


@pytest.mark.usefixtures("shop")
def test_a_first_look(
    spark: SparkSession,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(FIRST, running_broker, running_registry, tmp_path)
    assert "|   200|  180|" in capsys.readouterr().out


@pytest.mark.usefixtures("shop")
def test_the_windowed_count(
    spark: SparkSession,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path: Path,
) -> None:
    run(WINDOWED_COUNT, running_broker, running_registry, tmp_path)
    found = {
        (row["minute"].replace(tzinfo=UTC), row["url"]): row["count"]
        for row in spark.read.parquet(f"{tmp_path}/views_per_minute").collect()
    }
    # Ten minutes before the last event, nothing more can come.
    expected = Counter(
        (datetime.fromtimestamp((BEGAN + seq // 6 * MINUTE) / 1000, UTC), f"/item/{seq % 5}")
        for seq in range(180)
        if (seq // 6 + 1) * MINUTE <= 179 * 10_000 - 10 * MINUTE
    )
    assert len(expected) == 19 * 5
    assert found == expected


@pytest.mark.usefixtures("shop")
def test_the_join(
    spark: SparkSession,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path: Path,
) -> None:
    run(JOIN, running_broker, running_registry, tmp_path)
    found = {
        row["url"]: row["orders"]
        for row in spark.read.parquet(f"{tmp_path}/pages_that_sold").collect()
    }
    expected: dict[str, set[int]] = defaultdict(set)
    for number, minute in enumerate((5, 40, 400)):
        for seq in range(180):
            if seq % 7 == number and 0 <= minute * MINUTE - seq * 10_000 <= 30 * MINUTE:
                expected[f"/item/{seq % 5}"].add(number)
    assert found == {url: len(numbers) for url, numbers in expected.items()}
    assert set().union(*expected.values()) == {0, 1}
