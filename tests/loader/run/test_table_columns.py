"""Whose schema says what a table's columns are."""

import pytest

from harness.registry_process import RegistryProcess
from loader.config import HeaderColumns
from loader.errors import NoSchema
from loader.run.table_form import LatestSchema, table_columns, that_reads_all
from loader.tables import SourceTopic, TableSource
from schemas.parsing import parse
from schemas.registry_client import RegistryClient
from tests.loader.application import VIEW, Json, event_schema

COUNTRY: Json = {"name": "country", "type": "string", "default": ""}
REFERER: Json = {"name": "referer", "type": "string", "default": ""}
CLUSTERS = ("dc1", "dc2", "dc3")


def latest(cluster: str, number: int, text: str) -> LatestSchema:
    return LatestSchema(f"{cluster}.views-value", 7, number, parse(text))


PLAIN = event_schema()
WITH_COUNTRY = event_schema([*VIEW, COUNTRY])
WITH_REFERER = event_schema([*VIEW, REFERER])
NEEDS_COUNTRY = event_schema([*VIEW, {"name": "country", "type": "string"}])
NEEDS_REFERER = event_schema([*VIEW, {"name": "referer", "type": "string"}])


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        ({3: PLAIN}, 3),
        ({3: PLAIN, 8: WITH_COUNTRY}, 8),
        ({8: WITH_COUNTRY, 3: PLAIN}, 8),
        ({3: PLAIN, 8: WITH_COUNTRY, 9: WITH_REFERER}, 9),
        # The newest cannot read what lacks the field.
        ({3: PLAIN, 9: NEEDS_COUNTRY}, 3),
        ({3: PLAIN, 8: WITH_COUNTRY, 9: NEEDS_COUNTRY}, 8),
    ],
)
def test_the_newest_that_reads_all_has_the_say(texts: dict[int, str], chosen: int) -> None:
    found = [
        latest(cluster, number, text)
        for cluster, (number, text) in zip(CLUSTERS, texts.items(), strict=False)
    ]
    assert that_reads_all("views", found).id == chosen


def test_the_same_schema_of_several_topics_reads_itself() -> None:
    found = [latest(cluster, 3, PLAIN) for cluster in CLUSTERS]
    assert that_reads_all("views", found).id == 3


def test_if_none_reads_all_two_are_named() -> None:
    found = [latest("dc1", 3, NEEDS_COUNTRY), latest("dc2", 4, NEEDS_REFERER)]
    with pytest.raises(NoSchema) as caught:
        that_reads_all("views", found)
    said = str(caught.value)
    assert said.startswith("table views: none of its topics' latest schemas can read")
    assert "referer" in said
    assert "data of dc1.views-value, version 7 cannot be read with dc2.views-value" in said


@pytest.fixture
def table(new_topic: str) -> TableSource:
    topics = tuple(
        SourceTopic(topic=f"{cluster}.{new_topic}", cluster=cluster) for cluster in CLUSTERS
    )
    return TableSource(name=new_topic, topics=topics, with_cluster=True)


def test_fields_that_no_column_takes_are_named(
    running_registry: RegistryProcess, table: TableSource
) -> None:
    with RegistryClient(running_registry.url) as registry:
        ids = [
            registry.register(f"{source.topic}-value", text)
            for source, text in zip(table.topics, (WITH_COUNTRY, WITH_REFERER), strict=False)
        ]
        found = table_columns(registry, table, HeaderColumns.FLAT)
    newest = max(ids)
    other, left_out = ("dc1", "country") if newest == ids[1] else ("dc2", "referer")
    assert set(found.writers) == set(ids)
    (warning,) = found.warnings
    assert warning.startswith(f"{left_out} of {other}.{table.name}-value, version 1 cannot be")
