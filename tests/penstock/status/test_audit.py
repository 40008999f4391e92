"""What is made of an audit's answers."""

import pytest

from audit.findings import State
from audit.judged_hours import HOUR
from audit.verdicts import Wait, WindowVerdict
from ground.http_client import parse_program_url
from penstock.status.audit import (
    AskingAudit,
    OpenTopic,
    complete_until,
    first_open_hour,
    landed_of,
    last_load,
)
from penstock.status.part import NoStatus
from tests.penstock.answering_audit import answering
from tests.penstock.status.made_up import (
    NOW,
    THIS_HOUR,
    answers_of,
    audit_part,
    consumer_row,
    load_row,
    topic_row,
)


def test_what_follows_soon_after_one_another_is_one_load() -> None:
    loads = [
        load_row("a", NOW, 10),
        load_row("elsewhere", NOW, 1_000, to="file:///other"),
        load_row("b", NOW - 8_000, 20),
        load_row("c", NOW - 16_000, 30),
        load_row("d", NOW - 60_000, 40),
    ]
    load = last_load(audit_part(loads=loads), "c")
    assert load is not None
    assert (load.time, load.topics, load.rows) == (NOW, 3, 60)


def test_a_topic_that_comes_again_is_of_the_load_before() -> None:
    loads = [load_row("a", NOW, 1), load_row("a", NOW - 5_000, 2), load_row("b", NOW - 5_000, 4)]
    load = last_load(audit_part(loads=loads), "c")
    assert load is not None
    assert (load.topics, load.rows) == (1, 1)
    assert last_load(audit_part(loads=loads), "another") is None


def test_of_a_topic_that_was_made_anew_counts_what_landed_last() -> None:
    consumers = [
        consumer_row("t", 5, read=NOW),
        consumer_row("t", 900, read=NOW - HOUR),
        consumer_row("t", 77, to="file:///other"),
        consumer_row("t", 78, cluster="another"),
    ]
    assert landed_of(audit_part(consumers=consumers), "c", "file:///w") == {"t": 5}


@pytest.mark.parametrize(
    ("state", "hour"),
    [(State.COMPLETE, -1), (State.PENDING, THIS_HOUR), (State.CHANGED, THIS_HOUR)],
)
def test_the_first_hour_that_is_open(state: State, hour: int) -> None:
    assert first_open_hour(topic_row("t", state)) == hour


def cell(start: int, state: State) -> WindowVerdict:
    return WindowVerdict(start=start, length=10_000, state=state, sums=[])


def test_complete_until_the_first_that_is_not() -> None:
    cells = [cell(10, State.COMPLETE), cell(20, State.MISSING), cell(30, State.PENDING)]
    assert complete_until(cells, 99) == 20
    assert complete_until(cells[:1], 99) == 99


def test_an_audit_is_asked_for_an_hour_of_what_is_open_and_seldom_for_the_rest() -> None:
    part = audit_part([topic_row("t", State.PENDING), topic_row("done")])
    waits = [
        Wait(on="ledger", words="always"),
        Wait(on="agent", words="newer", since=NOW),
        Wait(on="hdfs", words="older", since=NOW - 1),
    ]
    bodies = answers_of(part, cells=[cell(THIS_HOUR + 60_000, State.PENDING)], waits=waits)
    with answering(lambda path, _: (200, bodies[path])) as audit:
        asking = AskingAudit(parse_program_url(audit.url), within=30)
        first, second = asking.ask(), asking.ask()
        asking.close()
    assert first == second
    assert (first.topics, first.agents, first.loads) == (part.topics, part.agents, part.loads)
    assert first.open == {
        ("c", "t"): OpenTopic(THIS_HOUR + 60_000, "older; newer; always"),
        ("c", "done"): OpenTopic(part.topics.as_of, ""),
    }
    paths = [path for path, _ in audit.asked]
    assert paths == ["topics", "agents", "loads", "brokers", "topic", "topics"]
    query = audit.asked[4][1]
    assert (query["topic"], query["from"], query["to"]) == (
        "t",
        str(THIS_HOUR),
        str(THIS_HOUR + HOUR),
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"now": "soon"}', b"[" * 100_000, b"\xff\xfe", b"<html>"]
)
def test_what_is_no_audit_is_no_answer(body: bytes) -> None:
    with answering(lambda _path, _query: (200, body)) as audit:
        asking = AskingAudit(parse_program_url(audit.url), within=30)
        with pytest.raises(NoStatus, match="no audit of this release"):
            asking.ask()
        asking.close()
