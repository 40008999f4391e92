"""What one table's run reads: the cluster asked, what is known of its logs looked up, and decided
(loader/planning/). Nothing is changed by it."""

from collections.abc import Iterator, Mapping

from client.brokers import Brokers
from loader.commit.history import History
from loader.errors import LoaderError
from loader.job import working
from loader.manifests import Manifest
from loader.markers import hour_path
from loader.planning.asking import ask
from loader.planning.facts import TopicFacts
from loader.planning.histories import with_partings
from loader.planning.plan import Plan, plan
from loader.planning.rebuild import plan_rebuild
from loader.reports import LastBatch
from loader.rewriting.origins import lowest_offsets
from loader.surroundings import Surroundings
from loader.tables import TableSource


def planned(
    around: Surroundings,
    table: TableSource,
    brokers: Brokers,
    history: History,
    latest: Manifest | None,
) -> Plan:
    """Of what is new, or of the hours that are to be rebuilt. Raises GapError, and whatever asking
    raises."""
    state = () if latest is None else latest.topics
    known = {topic.topic: topic.partitions for topic in state}
    facts = ask(brokers, {each.topic: known.get(each.topic, ()) for each in table.topics})
    facts = with_partings(
        brokers, facts, state, lambda topic, partition: _earlier(history, topic, partition)
    )
    if around.request.rebuild:
        return _planned_rebuild(around, table, latest, facts)
    return plan(
        table,
        facts,
        state,
        accept_gap=around.request.accept_gap,
        max_records=around.request.max_records,
        records_per_task=around.config.tasks.records,
    )


def _earlier(history: History, topic: str, partition: int) -> Iterator[LastBatch]:
    """The last batches that runs have read of a partition, the newest first."""
    for run in reversed(history.runs()):
        for state in history.read(run).topics:
            for each in state.partitions if state.topic == topic else ():
                if each.partition == partition and each.last is not None:
                    yield each.last


def _planned_rebuild(
    around: Surroundings,
    table: TableSource,
    latest: Manifest | None,
    facts: Mapping[str, TopicFacts],
) -> Plan:
    name, hours = table.name, around.request.rebuild
    if latest is None:
        raise LoaderError(f"table {name}: nothing was loaded that could be rebuilt")
    had = {file for hour in hours if hour in latest.hours for file in latest.hours[hour].files}
    # Of a file that somebody has taken away nothing can be lost.
    listed_now = (each for hour in hours for each in around.store.list(hour_path(name, hour)))
    files = [each.path for each in listed_now if each.path in had]
    with working(f"{name}: looking into what is replaced"):
        lowest = lowest_offsets(
            around.spark, [around.store.uri(file) for file in files], around.config.format
        )
    return plan_rebuild(
        table,
        facts,
        latest.topics,
        lowest=lowest,
        accept_gap=around.request.accept_gap,
        records_per_task=around.config.tasks.records,
    )
