"""Which topics are loaded, and into which tables."""

import pytest

from loader.config import LoaderConfig, Table
from loader.errors import LoaderError
from loader.planning.table_selection import matching, tables_of
from loader.values.tables import SourceTopic, TableSource

TOPICS = ["app.a", "app.b", "app.b.dead", "page_views", "_audit", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("patterns", "exclude", "found"),
    [
        (["page_views"], [], ["page_views"]),
        (["app.*"], [], ["app.a", "app.b", "app.b.dead"]),
        (["app.*"], ["*.dead"], ["app.a", "app.b"]),
        (["app.[ac]", "app.a"], [], ["app.a"]),
        (["app.?"], ["app.b"], ["app.a"]),
        (["App.*"], [], []),
        (["*"], [], ["app.a", "app.b", "app.b.dead", "page_views"]),
        (["_*"], [], []),
        (["dc1.*", "dc2._schemas"], [], ["dc1.a", "dc1.my_schemas", "dc2._schemas"]),
        (["_audit"], [], ["_audit"]),
        (["*", "_audit"], ["app*"], ["_audit", "page_views"]),
        (["not_there", "not.*"], [], ["not_there"]),
        ([], [], []),
    ],
)
def test_names_and_patterns(patterns: list[str], exclude: list[str], found: list[str]) -> None:
    copies = ["dc1.a", "dc1.my_schemas", "dc1._schemas"] if "dc1.*" in patterns else []
    assert matching([*TOPICS, *copies], patterns, exclude) == found


def config(topics: tuple[str, ...], tables: dict[str, Table] | None = None) -> LoaderConfig:
    return LoaderConfig(root="file:///x", cluster="offline", topics=topics, tables=tables or {})


def test_a_topic_is_a_table_unless_it_feeds_another() -> None:
    views = Table(topics={"dc2.views": "dc2", "dc1.views": "dc1"})
    found = tables_of(config(("*",), {"views": views}), ["z", "dc1.views", "dc2.views", "a"])
    assert found == (
        TableSource(name="a", topics=(SourceTopic(topic="a", cluster="offline"),)),
        TableSource(
            name="views",
            topics=(
                SourceTopic(topic="dc1.views", cluster="dc1"),
                SourceTopic(topic="dc2.views", cluster="dc2"),
            ),
            with_cluster=True,
        ),
        TableSource(name="z", topics=(SourceTopic(topic="z", cluster="offline"),)),
    )


def test_two_tables_in_one_folder_are_refused() -> None:
    views = Table(topics={"dc1.views": "dc1"})
    with pytest.raises(LoaderError, match="topic views and `tables: views` would land in the same"):
        tables_of(config(("*",), {"views": views}), ["views", "dc1.views"])


@pytest.mark.parametrize("name", ["_penstock", "_dead"])
def test_the_loaders_own_folders_are_no_tables(name: str) -> None:
    with pytest.raises(LoaderError, match=f"topic {name}: the folder of that name"):
        tables_of(config((name,)), [name])


@pytest.mark.parametrize("name", ["../../etc/cron.d", "..", "a/../../b", "a\n", "a" * 250])
def test_what_a_broker_calls_a_topic_never_leads_out_of_the_root(name: str) -> None:
    for patterns in (("*",), (name,)):
        with pytest.raises(LoaderError, match="topic"):
            tables_of(config(patterns), [name])
