"""The judge of agents can say no: to each kind of fault, in the log and in the ledger."""

import time
from collections.abc import Callable

import pytest

from tests.system.agent.agent_double import Double, Line, Value, lines_of, moved, run_of
from tests.system.agent.incarnations import (
    Incarnation,
    Violated,
    check_numbered,
    check_one_partition,
)
from tests.system.agent.numbered import Numbered
from tests.system.agent.site import Site


def written(name: str, count: int) -> Incarnation:
    incarnation = Incarnation(name)
    for number in range(count):
        incarnation.append(incarnation.line(number, padding=number))
    return incarnation


class Ships:
    """Two files in three batches, as they should be, unless a test changes something."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.name = site.new_topic(partitions=2)
        agent = site.agent({"paths": ["/nowhere/*"], "topic": self.name})
        self.double = Double(site.brokers, site.registry, self.name, agent.host)
        self.files = [written("one", 6), written("two", 3)]
        now = time.time_ns() // 1_000_000
        self.one = lines_of("s1", bytes(self.files[0].data), now)
        self.two = lines_of("s2", bytes(self.files[1].data), now + 90_000)

    def ship(self, *batches: list[Line], partition: int = 0) -> None:
        for batch in batches:
            self.double.ship(batch, partition=partition)

    def ship_all(self) -> None:
        self.ship(self.one[:2], self.one[2:] + self.two[:1], self.two[1:])

    def judge(self) -> None:
        self.double.speak()
        self.site.check(self.site.topic(self.name), self.files)


@pytest.fixture
def ships(site: Site) -> Ships:
    return Ships(site)


def test_what_is_right(ships: Ships) -> None:
    ships.ship_all()
    source = ships.one[0].source
    size = len(ships.files[0].data)
    ships.double.finished.append(
        {"topic": ships.name, "source": source, "path": "/logs/a", "events": 6, "size": size}
    )
    ships.judge()


def test_a_line_that_is_missing(ships: Ships) -> None:
    ships.ship(ships.one, ships.two[:2])
    with pytest.raises(Violated, match=r"two ends at \d+ of"):
        ships.judge()


def test_a_line_in_between_that_is_missing(ships: Ships) -> None:
    last = moved(ships.two[2], seq=1)
    ships.ship(ships.one, [ships.two[0], last])
    with pytest.raises(Violated, match="not 'two 0 '"):
        ships.judge()


def test_a_file_that_is_missing(ships: Ships) -> None:
    ships.ship(ships.one)
    with pytest.raises(Violated, match="two: nothing of"):
        ships.judge()


def test_a_batch_that_is_there_twice(ships: Ships) -> None:
    ships.ship(ships.one[:2], ships.one[:2], ships.one[2:], ships.two)
    with pytest.raises(Violated, match="seq 0 where 2 belongs"):
        ships.judge()


def test_a_file_that_is_there_twice(ships: Ships) -> None:
    ships.ship(ships.one, ships.two, [moved(line, source="s3") for line in ships.two])
    with pytest.raises(Violated, match="two was shipped before, as another source"):
        ships.judge()


def test_lines_in_disorder(ships: Ships) -> None:
    ships.ship(ships.two, ships.one[2:], ships.one[:2])
    with pytest.raises(Violated, match="seq 2 where 0 belongs"):
        ships.judge()


def test_a_source_in_two_partitions(ships: Ships) -> None:
    ships.ship(ships.one[:2], ships.two)
    ships.ship(ships.one[2:], partition=1)
    with pytest.raises(Violated, match="before it was in partition 0"):
        ships.judge()


def test_a_byte_that_was_changed(ships: Ships) -> None:
    ships.one[4] = moved(ships.one[4], message="one 4 xxxy")
    ships.ship_all()
    with pytest.raises(Violated, match="not 'one 4 xxxy'"):
        ships.judge()


def test_a_line_in_two_pieces(ships: Ships) -> None:
    last, cut = ships.two.pop(), 4
    middle = last.position + cut
    pieces = [
        moved(last, message=last.message[:cut], end_position=middle),
        moved(last, message=last.message[cut:], position=middle, seq=last.seq + 1),
    ]
    ships.ship(ships.one, ships.two + pieces)
    with pytest.raises(Violated, match="ends within a line"):
        ships.judge()


def test_a_line_in_two_pieces_where_its_end_came_late(ships: Ships) -> None:
    last, cut = ships.two.pop(), 4
    middle = last.position + cut
    ships.files[1].cuts.add(middle)
    pieces = [
        moved(last, message=last.message[:cut], end_position=middle),
        moved(last, message=last.message[cut:], position=middle, seq=last.seq + 1),
    ]
    ships.ship(ships.one, ships.two + pieces)
    ships.judge()


def test_what_nobody_wrote(ships: Ships) -> None:
    ships.ship_all()
    ships.ship([moved(ships.two[0], source="s3", message="three 0 ")])
    with pytest.raises(Violated, match="nobody wrote 'three 0 '"):
        ships.judge()


def test_lost_bytes_that_the_ledger_names(ships: Ships) -> None:
    """Only where they may be lost, and not if they are shipped after all."""
    lost = run_of("s2", 2, 0, ships.two[2].position, ships.two[2].end_position)
    left = {"fate": "lost", "count": 1, "bytes": 8, "reason": "truncated"}
    ships.ship(ships.one, ships.two[:2])
    ships.double.except_({**lost, "excepted": [left]})
    ships.files[1].safe = ships.two[1].position
    ships.judge()
    ships.files[1].safe = ships.two[2].end_position
    with pytest.raises(Violated, match="two ends at"):
        ships.judge()


def change_crc(value: Value) -> None:
    value["passages"][0]["windows"][0]["crc_sum"] ^= 1


def change_bytes(value: Value) -> None:
    value["passages"][1]["windows"][0]["bytes"] += 1


def change_window(value: Value) -> None:
    value["passages"][2]["windows"][0]["start"] -= 60_000


def drop_passage(value: Value) -> None:
    del value["passages"][1]


def double_passage(value: Value) -> None:
    value["passages"].append(value["passages"][0])


def count_too_far(value: Value) -> None:
    value["passages"][2]["offsets"][0]["count"] += 1


def swap_runs(value: Value) -> None:
    value["passages"][1]["runs"].reverse()


def skip_bytes(value: Value) -> None:
    value["passages"][0]["runs"][0]["end_position"] -= 1


def lose_runs(value: Value) -> None:
    value["passages"][1]["runs"] = []


def other_topic_id(value: Value) -> None:
    value["passages"][1]["topic_id"] = "AAAAAAAAAAAAAAAAAAAAAA"


def too_few_delays(value: Value) -> None:
    value["passages"][1]["delays"] = [1]


def wrong_finish(value: Value) -> None:
    name = value["passages"][0]["topic"]
    value["finished"] = [{"topic": name, "source": "s1", "path": "", "events": 5, "size": 60}]


def skip_an_entry(value: Value) -> None:
    value["header"]["seq"] += 1


def other_cluster(value: Value) -> None:
    value["cluster"] = "elsewhere"


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (change_crc, "the windows are"),
        (change_bytes, "the windows are"),
        (change_window, "the windows are"),
        (drop_passage, "offsets not in the ledger"),
        (double_passage, "counts 2 offsets twice"),
        (count_too_far, "that are not there"),
        (swap_runs, "the runs say"),
        (skip_bytes, "the one before ends at"),
        (lose_runs, r"s1: 6 events, 2 in the ledger"),
        (other_topic_id, "its id is"),
        (too_few_delays, "1 delays of 5 events"),
        (wrong_finish, "finished with"),
        (skip_an_entry, "entry 1 where 0 belongs"),
        (other_cluster, "an entry of"),
    ],
)
def test_a_ledger_that_is_wrong(
    ships: Ships, tamper: Callable[[Value], None], complaint: str
) -> None:
    ships.ship_all()
    ships.double.tamper = tamper
    with pytest.raises(Violated, match=complaint):
        ships.judge()


NUMBERED = Numbered("w", 20)


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ([[0, 1, 2], [3, 4]], ""),
        ([[3, 4], [0, 1, 2]], ""),
        ([[0, 1], [3, 4]], r"1 of 5 are missing: \[2\]"),
        ([[0, 1, 3], [2, 4]], "line 3 after 1"),
        ([[0, 1, 2], [2, 3, 4]], r"1 lines are there twice: \[2\]"),
        ([[0, 1, 2, 3, 4, 5]], "line 5 was never written"),
    ],
)
def test_numbered_lines(site: Site, sources: list[list[int]], complaint: str) -> None:
    name = site.new_topic()
    double = Double(site.brokers, site.registry, name, "nobody")
    for at, numbers in enumerate(sources):
        data = "".join(f"{NUMBERED.line(number)}\n" for number in numbers).encode()
        double.ship(lines_of(f"s{at}", data, 1_700_000_000_000))
    topic = site.topic(name).read_to_end()
    check_one_partition(topic.events)
    if not complaint:
        check_numbered(topic.events, NUMBERED, 5)
        return
    with pytest.raises(Violated, match=complaint):
        check_numbered(topic.events, NUMBERED, 5)
