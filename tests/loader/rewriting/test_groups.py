"""Which files become one: never those of different columns."""

from hypothesis import given
from hypothesis import strategies as st

from loader.hours.closing import Merge
from loader.rewriting.groups import Footer, grouped, groups_of
from loader.tables import Hour

NOON = Hour(43_200_000)
SIZES = st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 1000), min_size=1)
FILES = st.dictionaries(
    st.text("abcdef", min_size=1), st.tuples(st.integers(0, 1000), st.sampled_from("xyz"))
)


@given(SIZES, st.integers(1, 20))
def test_every_file_is_in_one_group(sizes: dict[str, int], wanted: int) -> None:
    groups = grouped(sizes, wanted)

    assert sorted(path for group in groups for path in group) == sorted(sizes)
    assert len(groups) == min(wanted, len(sizes))
    assert all(groups)
    assert groups == grouped(dict(sorted(sizes.items(), reverse=True)), wanted)


@given(SIZES, st.integers(1, 20))
def test_groups_differ_by_no_more_than_a_file(sizes: dict[str, int], wanted: int) -> None:
    filled = [sum(sizes[path] for path in group) for group in grouped(sizes, wanted)]

    assert max(filled) - min(filled) <= max(sizes.values())


@given(FILES.filter(bool), st.integers(1, 20))
def test_only_files_of_the_same_columns_become_one(
    files: dict[str, tuple[int, str]], wanted: int
) -> None:
    sizes = {path: size for path, (size, _) in files.items()}
    known = {path: Footer(columns, row_groups=2) for path, (_, columns) in files.items()}
    merge = Merge(NOON, tuple(sorted(files)), sum(sizes.values()), wanted)

    groups = groups_of([merge], sizes, known)

    assert [each.number for each in groups] == list(range(len(groups)))
    merged = sorted(path for each in groups for path in each.files)
    assert len(set(merged)) == len(merged)
    for group in groups:
        assert {known[path].columns for path in group.files} == {group.columns}
        assert group.row_groups == 2 * len(group.files)
        assert group.size == sum(sizes[path] for path in group.files)
        assert group.merge.files == tuple(merged)
        assert group.merge.bytes == sum(sizes[path] for path in merged)
        assert group.merge.files_wanted == len(groups) < len(merged)
    if wanted == 1:
        alone = sorted(set(files) - set(merged))
        assert len({files[path][1] for path in alone}) == len(alone)


def test_a_share_of_the_files_for_each_kind_of_columns() -> None:
    sizes = {f"{at:02}": 100 for at in range(12)} | {"large": 800}
    known = {path: Footer("old" if path < "05" else "new") for path in sizes}
    merge = Merge(NOON, tuple(sizes), sum(sizes.values()), 4)

    groups = groups_of([merge], sizes, known)

    assert [(each.columns, each.size) for each in groups] == [
        ("new", 800),
        ("new", 400),
        ("new", 300),
        ("old", 500),
    ]
