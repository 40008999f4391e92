"""What tasks read, from a running broker; without Spark, which only carries it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import OffsetsMissing, UnknownTopic
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from loader.errors import DeadRecord, GapError, NoSchema, OptionRefused
from loader.spark.data_source.batch_plan import batch_tasks
from loader.spark.data_source.description import describe
from loader.spark.data_source.ranges import Condition, Operator
from schemas.envelope import Encoder
from schemas.parsing import parse
from tests.client.shipped_topics import delete_before
from tests.loader.application import BEGAN, VIEW, Application, event_schema, landed
from tests.loader.spark.data_source.conftest import NewApplication, Source, offsets, rows_of


@pytest.fixture
def written(new_application: NewApplication) -> Application:
    """Two partitions, of fifty events each, a second apart; five batches each."""
    application = new_application(partitions=2)
    for batch in range(5):
        for partition in (0, 1):
            application.write(10, partition=partition, time=BEGAN + batch * 10_000, step=1000)
    return application


def test_many_partitions_and_empty_ones(new_application: NewApplication, source: Source) -> None:
    application = new_application(partitions=200)
    assert source.tasks(application) == []
    for partition in range(0, 200, 2):
        application.write(2, partition=partition)
    assert landed(source.rows(application)) == sorted(application.written)


def test_rows_of_apache_kafka(
    running_kafka: ApacheKafka, running_registry: RegistryProcess, new_topic: str
) -> None:
    bootstrap, url = running_kafka.bootstrap, running_registry.url
    application = Application(bootstrap, url, new_topic, partitions=2)
    application.write(50)
    application.write(30, partition=1)
    application.close()
    found = Source(bootstrap, url).rows(application, tasksPerPartition=3)
    assert landed(found) == sorted(application.written)


def test_every_row_once_however_it_is_divided(written: Application, source: Source) -> None:
    whole = source.rows(written)
    assert landed(whole) == sorted(written.written)
    for given in (
        {"tasksPerPartition": 3},
        {"tasksPerPartition": 50},
        {"maxRecordsPerTask": 7},
        {"maxBytesPerTask": 1000},
    ):
        tasks = source.tasks(written, **given)
        assert len(tasks) >= 4
        found = rows_of(tasks, source.options(written, **given))
        assert sorted(offsets(found)) == offsets(whole)
        assert landed(found) == sorted(written.written)


@pytest.mark.parametrize(
    ("first", "last", "left"),
    [
        ("earliest", "latest", range(50)),
        ("latest", "latest", range(0)),
        ('{"T": {"0": 13, "1": 13}}', '{"T": {"0": 27, "1": 27}}', range(13, 27)),
        ('{"T": {"0": -2, "1": 0}}', '{"T": {"0": 4, "1": 4}}', range(4)),
        ('{"T": {"0": 49, "1": 49}}', '{"T": {"0": -1, "1": 50}}', range(49, 50)),
        (13.0, 27.0, range(13, 27)),
        (0.0, 50.0, range(50)),
        (12.5, 13.0, range(0)),
        (99.0, 100.0, range(0)),
    ],
)
def test_both_ends_are_exact(
    written: Application, source: Source, first: str | float, last: str | float, left: range
) -> None:
    """Offsets, or seconds since the first event."""

    def option(name: str, value: str | float) -> dict[str, object]:
        if isinstance(value, float):
            return {f"{name}Timestamp": BEGAN + int(value * 1000)}
        return {f"{name}Offsets": value.replace("T", written.topic)}

    found = source.rows(written, **option("starting", first), **option("ending", last))
    assert offsets(found) == [(partition, each) for partition in (0, 1) for each in left]


def test_offsets_that_are_not_there(written: Application, source: Source, brokers: Brokers) -> None:
    def at(zero: int, one: int) -> str:
        return f'{{"{written.topic}": {{"0": {zero}, "1": {one}}}}}'

    brokers.topic(written.topic)
    delete_before(brokers, written.topic, 15)
    with pytest.raises(GapError, match=r"-0: offset 14 was deleted, the log starts at 15\. "):
        source.tasks(written, startingOffsets=at(14, 0))
    with pytest.raises(GapError, match="-1: offset 51 does not exist, the log ends at 50"):
        source.tasks(written, endingOffsets=at(50, 51))
    found = source.rows(
        written, startingOffsets=at(14, 45), endingOffsets=at(17, 51), failOnDataLoss="false"
    )
    assert offsets(found) == [(0, 15), (0, 16), *((1, each) for each in range(45, 50))]
    # What nobody named begins where the log does, within a batch.
    assert offsets(source.rows(written))[0] == (0, 15)
    said = rf"must name exactly the partitions .*{written.topic}-1 is missing.* -2 is the earliest"
    with pytest.raises(OptionRefused, match=said):
        source.tasks(written, startingOffsets=f'{{"{written.topic}": {{"0": 20}}}}')
    with pytest.raises(OptionRefused, match=r"other-0 is not read \(and 1 more\)"):
        source.tasks(written, endingOffsets='{"other": {"0": 20, "1": 5}}')


def test_what_is_deleted_before_a_task_reads_it(
    written: Application, source: Source, brokers: Brokers
) -> None:
    strict, lenient = source.options(written), source.options(written, failOnDataLoss="false")
    tasks = batch_tasks(strict)
    brokers.topic(written.topic)
    delete_before(brokers, written.topic, 30)
    with pytest.raises(OffsetsMissing, match=f"{written.topic}-0: offsets 0 to 49"):
        rows_of(tasks, strict)
    left = [(0, each) for each in range(30, 50)] + [(1, each) for each in range(50)]
    assert offsets(rows_of(tasks, lenient)) == left


def test_a_topic_that_is_made_anew_before_it_is_read(
    written: Application, source: Source, brokers: Brokers
) -> None:
    strict, lenient = source.options(written), source.options(written, failOnDataLoss="false")
    tasks = batch_tasks(strict)
    admin.delete_topic(brokers, written.topic)
    wait_until(lambda: not brokers.refresh([written.topic]).has(written.topic))
    admin.create_topic(brokers, written.topic, partitions=2)
    with pytest.raises(OffsetsMissing, match="the topic was recreated"):
        rows_of(tasks, strict)
    assert rows_of(tasks, lenient) == []


def test_what_cannot_be_decoded(application: Application, source: Source) -> None:
    application.write(3)
    application.send_bytes(b"no envelope", time=BEGAN + 5)
    application.send_bytes(None)
    application.write(2)
    said = rf"{application.topic}-0, offset 3: names no schema: .*dead=skip.*dead=keep"
    with pytest.raises(DeadRecord, match=said):
        source.rows(application)
    assert [row["_offset"] for row in source.rows(application, dead="skip")] == [0, 1, 2, 5, 6]
    kept = sorted(source.rows(application, dead="keep"), key=lambda row: row["_offset"])
    assert [row["_offset"] for row in kept] == list(range(7))
    assert [row["_dead"] is None for row in kept] == [True] * 3 + [False] * 2 + [True] * 2
    assert kept[3]["_dead"] == {
        "reason": "names no schema",
        "detail": kept[3]["_dead"]["detail"],
        "timestamp": BEGAN + 5,
        "key": None,
        "value": b"no envelope",
    }
    assert (kept[3]["_topic"], kept[3]["user"], kept[4]["_dead"]["reason"]) == (
        application.topic,
        None,
        "no value",
    )
    # What lies outside of what was asked for is nobody's business.
    bounds = {
        f"{name}Offsets": f'{{"{application.topic}": {{"0": {offset}}}}}'
        for name, offset in (("starting", 5), ("ending", 7))
    }
    assert [row["_offset"] for row in source.rows(application, **bounds)] == [5, 6]


def test_conditions_make_less_to_read(written: Application, source: Source) -> None:
    def left(*conditions: tuple[str, Operator, Any]) -> list[tuple[int, int, int]]:
        made = [Condition(column, how, (value,)) for column, how, value in conditions]
        tasks = batch_tasks(source.options(written), made)
        return [(each.partition, each.first, each.end) for task in tasks for each in task]

    assert left(("_partition", Operator.EQUAL, 1)) == [(1, 0, 50)]
    assert left(("_offset", Operator.FROM, 30)) == [(0, 30, 50), (1, 30, 50)]
    assert left(("_offset", Operator.ABOVE, 50)) == []
    assert left(("_topic", Operator.EQUAL, "another")) == []


def test_late_records_are_not_lost_to_a_condition_on_time(
    new_application: NewApplication, source: Source
) -> None:
    text = '"string"'
    application = new_application(schema=text)
    encoder = Encoder(parse(text), application.change(text))
    for second in (10, 50, 20, 60, 30):
        application.send_bytes(encoder.encode(f"{second}"), time=BEGAN + second * 1000)
        application.flush()
    options = source.options(application)
    late = datetime.fromtimestamp(BEGAN / 1000 + 40, UTC)
    found = rows_of(
        batch_tasks(options, [Condition("_timestamp", Operator.FROM, (late,))]), options
    )
    assert [row["value"] for row in found] == ["50", "20", "60", "30"]
    later = late.replace(year=late.year + 1)
    assert batch_tasks(options, [Condition("_timestamp", Operator.ABOVE, (later,))]) == []


def test_several_topics_of_one_schema(new_application: NewApplication, source: Source) -> None:
    old = new_application("-a")
    new = new_application("-b")
    old.write(3)
    referrer = {"name": "referrer", "type": "string", "default": "none"}
    new.change(event_schema([*VIEW, referrer]))
    new.write(2, fields={**new.view(0), "referrer": "mail"})
    # The first has the say: it has no referrer.
    both = source.rows(topic=f"{old.topic},{new.topic}")
    assert [row["_topic"] for row in both] == [old.topic] * 3 + [new.topic] * 2
    assert "referrer" not in both[0]
    pattern = source.rows(topicPattern=f"{old.topic[:-2]}-*")
    assert landed(pattern) == landed(both)
    swapped = source.rows(topic=f"{new.topic},{old.topic}")
    assert [row["referrer"] for row in swapped] == ["mail"] * 2 + ["none"] * 3
    named = source.rows(topic=f"{old.topic},{new.topic}", schemaSubject=f"{new.topic}-value")
    assert [row["referrer"] for row in named] == ["none"] * 3 + ["mail"] * 2


def test_topics_that_cannot_be_read_together(
    new_application: NewApplication, source: Source
) -> None:
    one = new_application("-a")
    other = new_application("-b", schema=event_schema([{"name": "user", "type": "long"}]))
    said = rf"topic {other.topic} cannot be read with the schema of topic {one.topic}: /fields/"
    with pytest.raises(NoSchema, match=said):
        describe(source.options(topic=f"{one.topic},{other.topic}"))


def test_what_does_not_exist(source: Source, new_topic: str) -> None:
    with pytest.raises(NoSchema, match=f"has no subject {new_topic}-value: register a schema"):
        describe(source.options(topic=new_topic))
    with pytest.raises(UnknownTopic, match=f"no topic {new_topic}"):
        source.tasks(topic=new_topic)
    with pytest.raises(NoSchema, match="no topic matches option `topicPattern`"):
        describe(source.options(topicPattern=f"{new_topic}?"))
