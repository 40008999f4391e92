"""What is known of groups, taken together by topic, and as figures for Prometheus."""

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from audit.clusters.groups.figures import group_families
from audit.clusters.groups.lags import UNKNOWN, GroupsSeen, GroupTopic, seen
from client.groups.lag import GroupPartition, Lag
from client.groups.offsets import ListedGroup
from client.producing.delivery import TopicPartition

LOOKED = 1_790_000_000_000
NASTY = 'a "group"\\ with\nlines\u202e and ü'


def reading(**lags: Lag) -> GroupTopic:
    """Of one group in topic `t`: `p0=…`."""
    found = {("g", TopicPartition("t", int(name[1:]))): lag for name, lag in lags.items()}
    (row,) = seen(LOOKED, {"g": ListedGroup("g", "consumer", "Stable", 1)}, found, ()).rows
    return row


def behind(messages: int, seconds: float, *, begins: int = 0) -> Lag:
    return Lag(10, begins, 10 + messages, messages, 1, seconds)


def test_messages_are_added_and_the_oldest_counts() -> None:
    row = reading(p0=behind(5, 60.0), p1=behind(7, 3600.0), p2=Lag(3, None, 3, 0, None, 0.0))
    assert (row.state, row.partitions, row.messages) == ("Stable", 3, 12)
    assert (row.behind, row.furthest) == (3_600_000, 1)
    assert (row.unknown_partitions, row.unknown, row.unread) == (0, "", 0)


def test_nothing_left_is_no_partition_that_is_behind() -> None:
    row = reading(p0=Lag(3, None, 3, 0, None, 0.0))
    assert (row.messages, row.behind, row.furthest) == (0, 0, UNKNOWN)


def test_what_is_not_known_makes_nothing_else_unknown() -> None:
    row = reading(p0=behind(5, 60.0), p1=Lag(4, unknown="no leader"))
    assert (row.messages, row.behind, row.unknown_partitions) == (5, 60_000, 1)
    assert row.unknown == "t-1: no leader"


def test_nothing_known_is_no_zero() -> None:
    row = reading(p0=Lag(4, unknown="no leader"))
    assert (row.messages, row.behind, row.furthest) == (UNKNOWN, UNKNOWN, UNKNOWN)


def test_messages_without_their_time() -> None:
    row = reading(p0=Lag(4, 0, 9, 5, unknown="not allowed"))
    assert (row.messages, row.behind, row.unknown_partitions) == (5, UNKNOWN, 1)


def test_what_retention_took_first() -> None:
    assert reading(p0=behind(5, 1.0, begins=25), p1=behind(5, 1.0)).unread == 15


def test_who_is_furthest_behind_comes_first() -> None:
    lags = {
        ("done", TopicPartition("t", 0)): Lag(3, None, 3, 0, None, 0.0),
        ("late", TopicPartition("t", 0)): behind(1, 900.0),
        ("unknown", TopicPartition("t", 0)): Lag(3, unknown="away"),
        ("later", TopicPartition("t", 0)): behind(1, 1000.0),
    }
    rows = seen(LOOKED, {}, lags, ()).by_topic["t"]
    assert [each.group for each in rows] == ["later", "late", "done", "unknown"]


# Figures


class _Scraped(Collector):
    def __init__(self, groups: dict[str, GroupsSeen], most: int) -> None:
        self._groups, self._most = groups, most

    def collect(self):  # type: ignore[no-untyped-def]
        return group_families("a_", self._groups, LOOKED + 5_000, self._most)


def scraped(
    lags: dict[GroupPartition, Lag], most: int = 1_000, *, looked: int = LOOKED
) -> dict[tuple[str, tuple[str, ...]], float]:
    """Names, and labels in the order of their names, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(_Scraped({"c": seen(looked, {}, lags, ())}, most))
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_row_for_each_partition() -> None:
    found = scraped(
        {
            (NASTY, TopicPartition("t", 0)): behind(5, 60.5),
            ("g", TopicPartition("t", 1)): Lag(4, unknown="no leader"),
            ("g", TopicPartition("t", 2)): Lag(4, 0, 9, 5, unknown="not allowed"),
        }
    )
    assert found == {
        ("a_group_lag_messages", ("c", NASTY, "0", "t")): 5,
        ("a_group_lag_seconds", ("c", NASTY, "0", "t")): 60.5,
        ("a_group_lag_messages", ("c", "g", "2", "t")): 5,
        ("a_group_lag_left_out", ()): 0,
        ("a_group_lag_unknown", ("c",)): 2,
        ("a_group_look_age_seconds", ("c",)): 5,
    }


def test_rows_are_bounded_and_the_rest_is_counted() -> None:
    lags = {(f"g{at}", TopicPartition("t", at)): behind(at, at / 10) for at in range(100)}
    found = scraped(lags, 3)
    shown = {labels[1] for name, labels in found if name == "a_group_lag_seconds"}
    assert shown == {"g99", "g98", "g97"}
    assert found["a_group_lag_left_out", ()] == 97


def test_before_the_first_look() -> None:
    assert scraped({}, looked=0)["a_group_look_age_seconds", ("c",)] == -1
