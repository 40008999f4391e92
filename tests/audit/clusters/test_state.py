"""Which topics are known to be there no more."""

from audit.clusters.state import AuditState, ClusterState
from audit.reconciling.picture import TopicKey

OLD = TopicKey("east", "clicks", "old")
NEW = TopicKey("east", "clicks", "new")
GONE = TopicKey("east", "gone", "g")


def standing(looked: int, **topics: str) -> AuditState:
    east = ClusterState(topic_ids=topics, absent={"gone"}, looked=looked)
    return AuditState({"east": east})


def test_what_was_deleted_or_made_anew_is_there_no_more() -> None:
    known = standing(5, clicks="new")
    assert [known.is_deleted(each) for each in (OLD, NEW, GONE)] == [True, False, True]


def test_what_is_not_listed_may_only_be_hidden_until_it_is_asked_for_by_name() -> None:
    known = standing(5, other="o")
    assert not known.has_new("east")
    assert not known.is_deleted(OLD)
    assert known.unlisted("east") == ["clicks"]
    assert known.has_new("east")
    known.note("east", topic_ids={"other": "o", "clicks": ""}, looked=6)  # it may not be seen
    assert not known.has_new("east")
    assert not known.is_deleted(OLD)
    known.note("east", topic_ids={"other": "o"}, absent={"clicks"}, looked=7)
    assert known.is_deleted(OLD)


def test_nobody_can_tell_without_a_look_or_an_id() -> None:
    unsure = [standing(0), AuditState({}), standing(5, clicks="")]
    assert not any(each.is_deleted(OLD) for each in unsure)
    assert not standing(5, clicks="new").is_deleted(OLD._replace(topic_id=""))


def test_what_is_spoken_of_first_may_be_new_until_somebody_looks() -> None:
    known = standing(5, clicks="old")
    known.note("east", as_of=5, read=True)
    assert not known.has_new("east")
    known.note_reported([OLD, NEW])
    assert known.has_new("east")
    assert (known.is_deleted(NEW), known.may_be_gone(NEW)) == (False, True)
    known.note("east", topic_ids={"clicks": "new"}, looked=6, as_of=6)
    assert not known.has_new("east")
    assert (known.is_deleted(OLD), known.is_deleted(NEW)) == (True, False)
    assert (known.may_be_gone(OLD), known.may_be_gone(NEW)) == (True, False)
    known.note_reported([OLD])  # somebody is late with it
    known.note("east", topic_ids={"clicks": "newer"}, looked=9)
    assert known.is_deleted(NEW)


def test_what_was_in_the_way_is_not_said_for_ever() -> None:
    known = AuditState({"east": ClusterState(read=True)})
    known.reset(rebuilt="rebuilt")
    known.reset(unusable="the disk is full")
    known.note("east", read=True)
    assert known.notices() == ["rebuilt", "the disk is full"]
    known.note_all_read(5)
    assert known.notices() == ["rebuilt"]


def test_ready_is_who_has_read_and_judged_what_was_there() -> None:
    """A cluster that could not be reached at the start may have topics that nobody knows of."""
    known = AuditState({"east": ClusterState(), "west": ClusterState()})
    known.note("east", read=True, judged=True)
    known.note("west", unreachable="nobody answers")
    known.note_all_read(5)
    assert known.why_not_ready() == "Cluster west cannot be read: nobody answers"
    known.note("west", unreachable="", behind=7)
    assert known.why_not_ready() == "the ledger of west is being read: 7 entries are left"
    known.note("west", read=True)
    assert known.why_not_ready() == "what was read is being judged"
    known.note("west", judged=True)
    assert known.why_not_ready() == ""
    known.note("west", unreachable="gone")
    assert known.why_not_ready() == ""


def test_a_ledger_that_is_read_no_more_is_said_to_be_old() -> None:
    known = AuditState({"east": ClusterState(read=True, as_of=1_000), "west": ClusterState()})
    assert known.too_old(20_000) == []
    assert known.too_old(151_000) == [
        "The ledger of east was last read 2 min ago: the data shown is as old as that"
    ]
    assert known.ages(41_000) == [
        "the ledger of east was read 40 s ago",
        "the ledger of west is being read",
    ]


def test_a_name_is_there_while_a_topic_has_it() -> None:
    known = standing(5, clicks="new")
    assert known.those_there([OLD, NEW, GONE]) == {("east", "clicks")}
    assert known.those_there([OLD, GONE]) == frozenset()
