"""Slices share tasks where they are small; what tasks are told, and whom they ask for schemas."""

import pickle

import pytest

from harness.penstock.registry import RegistryProcess
from loader.landing.task_spec import MOST_SLICES, Seen, grouped, landing_job, times_from, unpacked
from loader.landing.writer_schemas import WriterSchemas
from loader.values.manifests import SEVERAL
from loader.values.tables import FIRST_TIME, LAST_TIME, Partition, Slice
from pyspark_penstock.landing import LandingReader
from schemas.errors import InvalidSchema, RegistryRefused
from schemas.registry_client import SCHEMA_NOT_FOUND, RegistryClient
from schemas.remote.address import RegistryAddress
from tests.loader.landing.decoded_batches import a_spec


def of(*sizes: int) -> list[Slice]:
    return [
        Slice(number=n, topic="t", topic_id="", cluster="c", partition=n, first=100, end=100 + size)
        for n, size in enumerate(sizes)
    ]


def test_every_slice_is_in_one_group_and_in_order() -> None:
    slices = of(*range(1, 300))
    assert [each for group in grouped(slices, 8) for each in group] == slices
    assert grouped([], 8) == ()


@pytest.mark.parametrize(
    ("sizes", "tasks", "groups"),
    [
        ([1_000] * 3, 2, [1, 1, 1]),  # large ones have a task of their own
        ([1] * 4, 8, [1, 1, 1, 1]),
        ([10] * 40, 8, [5] * 8),  # small ones share one
        ([1] * (2 * MOST_SLICES), 1, [MOST_SLICES] * 2),  # but not too many
    ],
)
def test_slices_share_tasks_where_they_are_small(
    sizes: list[int], tasks: int, groups: list[int]
) -> None:
    assert [len(group) for group in grouped(of(*sizes), tasks)] == groups


def test_times_are_those_around_the_start_of_a_load() -> None:
    now = 1_800_000_000_000
    assert times_from(now, 1.5, 0) == (now - 1_500, now)
    assert times_from(now, 1e300, 1e300) == (FIRST_TIME, LAST_TIME)


def test_a_job_travels_as_text() -> None:
    seen: dict[Partition, Seen] = {
        ("t", 0): {"a": 10, "b": ((3, 4), (9, 9))},
        ("t", 1): {"c": 1},
        ("t", SEVERAL): {"d": 2},
    }
    slices = of(5, 5, 5)
    job = landing_job(a_spec(), [slices[:2], slices[2:]], seen)
    arrived = unpacked(job.packed())
    assert arrived == job
    assert arrived.seen_in(slices[0]) == {"a": 10, "b": ((3, 4), (9, 9)), "d": 2}
    assert arrived.seen_in(slices[1]) == {"c": 1, "d": 2}
    assert arrived.seen_in(slices[2]) == {"d": 2}


def test_single_slices_are_told_more() -> None:
    slices = of(5, 5, 5)
    besides = {1: {"a": ((10, 12),), "b": ((5, 8),), "new": ((0, 3),)}, 2: {"a": ((90, 99),)}}
    seen: dict[Partition, Seen] = {("t", 1): {"a": 10, "b": ((3, 4), (9, 9)), "c": 1}}
    job = unpacked(landing_job(a_spec(), [slices], seen, besides).packed())
    plain, told, other = job.groups[0]
    assert plain == slices[0]
    assert job.seen_in(told) == {"a": 13, "b": ((3, 9),), "c": 1, "new": 4}
    assert job.seen_in(other) == {"a": ((90, 99),)}


def test_what_travels_to_every_task_does_not_grow_with_their_number() -> None:
    def size(slices: list[Slice]) -> int:
        besides = {each.number: {f"source-{each.number}": ((0, 9),)} for each in slices}
        reader = LandingReader(landing_job(a_spec(), [slices], {("t", 0): {"a": 10}}, besides))
        assert [len(each.value) > 0 for each in reader.partitions()] == [True]
        return len(pickle.dumps(reader))

    assert size(of(*[10] * 1_000)) == size(of(10))


NOT_STRICT = '{"type":"record","name":"café","fields":[{"name":"n","type":"int","default":"x"}]}'


def test_what_the_driver_knew_is_not_asked_for() -> None:
    spec = a_spec(writer_schemas={4: NOT_STRICT, 5: "no schema"})
    with WriterSchemas(spec) as schemas:
        assert schemas.schema(4).full_name == "café"
        with pytest.raises(InvalidSchema):
            schemas.schema(5)


def test_others_are_the_registrys(running_registry: RegistryProcess, new_topic: str) -> None:
    with RegistryClient(running_registry.url) as registry:
        schema_id = registry.register(f"{new_topic}-value", '"string"')
    with WriterSchemas(a_spec(registry=RegistryAddress(running_registry.url))) as schemas:
        assert schemas.schema(schema_id).text == '"string"'
        with pytest.raises(RegistryRefused) as refused:
            schemas.schema(2_000_000_000)
        assert refused.value.code == SCHEMA_NOT_FOUND
