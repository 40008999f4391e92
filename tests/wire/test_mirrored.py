"""The mark of a copied topic: what it says, and what it may not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.mirrored import ACCEPT_GAP, CUT, MIRROR_ID, MIRROR_OF, MirrorCut, MirrorOf

TOPIC_ID = "5QDhz2mVQt6JbSHYXm9lKg"
NAMES = st.from_regex(r"\A[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}\Z")
TOPIC_IDS = st.just("") | st.from_regex(r"\A[a-zA-Z0-9_-]{22}\Z")


def test_the_mark_says_cluster_topic_and_topic_id() -> None:
    mark = MirrorOf.parse(f"dc1/page_views/{TOPIC_ID}")
    assert mark == MirrorOf("dc1", "page_views", TOPIC_ID)
    assert str(mark) == f"dc1/page_views/{TOPIC_ID}"
    assert mark.place == "dc1/page_views"


def test_a_source_without_topic_ids_leaves_the_last_part_empty() -> None:
    mark = MirrorOf.parse("dc1/page_views/")
    assert mark == MirrorOf("dc1", "page_views", "")
    assert str(mark) == "dc1/page_views/"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not CLUSTER/TOPIC/TOPIC-ID, or CLUSTER/TOPIC/ where"),
        ("dc1", "'dc1' is not CLUSTER/TOPIC/TOPIC-ID"),
        ("dc1/logs", "'dc1/logs' is not CLUSTER/TOPIC/TOPIC-ID"),
        ("dc1/lo/gs/", "'dc1/lo/gs/' is not CLUSTER/TOPIC/TOPIC-ID"),
        ("/logs/", "'' is not a cluster name: 1 to 249 ASCII letters, digits,"),
        ("dc 1/logs/", "'dc 1' is not a cluster name"),
        ("dc1//", "'' is not a topic name: 1 to 249 ASCII letters, digits,"),
        ("dc1/lögs/", "'lögs' is not a topic name"),
        ("dc1/logs\n/", "'logs\\n' is not a topic name"),
        ("dc1/../", "a topic cannot be named '..'"),
        ("dc1/" + 250 * "x" + "/", f"'{80 * 'x'}' is not a topic name"),
        (250 * "x" + "/logs/", f"'{80 * 'x'}' is not a cluster name"),
        ("dc1/logs/short", "'short' is not a topic id: these have 22 characters"),
        (f"dc1/logs/{TOPIC_ID}\n", "is not a topic id"),
        (f"dc1/logs/{TOPIC_ID}==", "is not a topic id"),
        (100_000 * "x", f"'{80 * 'x'}' is not"),
    ],
)
def test_what_is_no_mark_is_refused_with_what_is_allowed(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^.{{0,100}}{re.escape(problem)}") as refused:
        MirrorOf.parse(text)
    assert len(str(refused.value)) < 300


def test_a_mark_cannot_be_made_of_what_cannot_be_read_again() -> None:
    with pytest.raises(ValueError, match="not a cluster name"):
        MirrorOf("dc/1", "logs", "")


@given(NAMES, NAMES, TOPIC_IDS)
def test_what_was_printed_is_read_as_it_was(cluster: str, topic: str, topic_id: str) -> None:
    if topic in {".", ".."}:
        return
    mark = MirrorOf(cluster, topic, topic_id)
    assert MirrorOf.parse(str(mark)) == mark


@given(st.text(alphabet="a./-\n ", max_size=12))
def test_any_text_is_read_or_refused_and_printed_as_it_was(text: str) -> None:
    try:
        mark = MirrorOf.parse(text)
    except ValueError:
        return
    assert str(mark) == text


@given(TOPIC_IDS.filter(bool), *(st.integers(0, 99_999),) * 3, st.integers(0, 2**31 - 1))
def test_a_cut_is_read_as_it_was(
    topic_id: str, partition: int, first: int, count: int, epoch: int
) -> None:
    cut = MirrorCut(topic_id, partition, first, first + count + 1, epoch)
    assert MirrorCut.parse(str(cut)) == cut


@pytest.mark.parametrize(
    "text",
    [
        *("", f"{TOPIC_ID}/0:5-5@1", f"{TOPIC_ID}/0:5-4@1", f"{TOPIC_ID}/0:5@1"),
        *(f"{TOPIC_ID}/0:5-9", f"{TOPIC_ID}/0:-5-9@1", "0:5-9@1", 100_000 * "x"),
    ],
)
def test_what_is_no_cut(text: str) -> None:
    with pytest.raises(ValueError, match="leaderEpoch") as refused:
        MirrorCut.parse(text)
    assert len(str(refused.value)) < 300


def test_the_names_that_others_rely_on() -> None:
    assert (MIRROR_OF, MIRROR_ID) == ("penstock.mirror.of", "penstock-mirror")
    assert CUT == "penstock.mirror.cut"
    assert ACCEPT_GAP == "penstock.mirror.accept.gap"


def test_of_copies_of_penstocks_own_topics_no_ledger_speaks() -> None:
    assert MirrorOf("dc1", "_schemas", "").of_penstocks_own
    assert not MirrorOf("dc1", "my_schemas", "").of_penstocks_own
