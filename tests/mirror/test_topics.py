"""Which topics are copied, and what has to be done so that they can be."""

from mirror.partitions.gaps import Gap, gaps_of, gaps_text
from mirror.topics import Alter, Enlarge, Names, Standing, Topic, TopicCopy, plan
from wire.mirrored import MIRROR_OF

ID, OTHER_ID = "5QDhz2mVQt6JbSHYXm9lKg", "6QDhz2mVQt6JbSHYXm9lKg"
NAMES = Names("dc1.")


def there(topic_id: str = ID, partitions: int = 2, **configs: str) -> dict[str, Topic]:
    return {
        "t": Topic("t", topic_id, partitions, {k.replace("_", "."): v for k, v in configs.items()})
    }


def copy(mark: str = f"dc1/t/{ID}", partitions: int = 2, **configs: str) -> dict[str, Topic]:
    own = {k.replace("_", "."): v for k, v in configs.items()}
    return {"dc1.t": Topic("dc1.t", "id", partitions, {MIRROR_OF: mark, **own} if mark else own)}


def planned(source: dict[str, Topic], target: dict[str, Topic]) -> TopicCopy:
    return plan(NAMES, "dc1", source, target)["dc1.t"]


def test_names() -> None:
    names = Names("dc1.", topics=("page_*", "clicks"), exclude=("*_tmp",))
    assert names.here("page_views") == "dc1.page_views"
    assert [names.here(each) for each in ("other", "page_tmp", "_audit", "_schemas")] == [None] * 4
    assert Names("dc1.", schemas=True).here("_schemas") == "dc1._schemas"
    back = Names("", strip="dc1.")
    assert (back.here("dc1.t"), back.here("t"), back.here("dc1.")) == ("t", None, None)


def test_partitions_and_configs_are_followed() -> None:
    found = planned(
        there(partitions=4, retention_ms="5"), copy(segment_ms="9", min_insync_replicas="2")
    )
    altered = Alter("dc1.t", {"retention.ms": "5", "segment.ms": None})
    assert found.changes == (Enlarge("dc1.t", 4), altered)
    assert found.partitions == 2
    kept = plan(NAMES, "dc1", there(), copy(segment_ms="9"), frozenset({"segment.ms"}))
    assert kept["dc1.t"].changes == ()


def test_what_is_not_its_copy_is_left_alone() -> None:
    assert planned(there(), copy("")).standing is Standing.ORDINARY
    assert planned(there(), copy(f"dc2/t/{ID}")).standing is Standing.FOREIGN
    anew = planned(there(OTHER_ID), copy())
    assert anew.standing is Standing.RECREATED
    assert ID in anew.reason
    assert OTHER_ID in anew.reason
    assert planned({}, copy()).standing is Standing.GONE
    for target in (copy(""), copy(f"dc2/t/{ID}")):
        found = planned(there(partitions=9), target)
        assert (found.changes, found.partitions) == ((), 0)


def test_an_unknown_id_is_no_other_topic() -> None:
    assert planned(there(""), copy()).standing is Standing.COPIED
    assert planned(there(), copy("dc1/t/")).standing is Standing.COPIED


def test_two_topics_cannot_have_one_copy() -> None:
    names = Names("", strip="")
    found = plan(names, "dc1", {**there(), "u": Topic("u", "", 1, {})}, {})
    assert {each.there for each in found.values()} == {"t", "u"}


def test_gaps_as_text() -> None:
    gaps = {3: Gap(100, 150), 7: Gap(0, 912)}
    assert gaps_text(gaps) == "3:100-150,7:0-912"
    assert gaps_of("3:100-150,7:0-912") == gaps
    assert gaps_of("") == {}
    assert gaps_text({}) is None
