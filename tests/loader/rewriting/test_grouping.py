"""Which files become one."""

from hypothesis import given
from hypothesis import strategies as st

from loader.rewriting.grouping import grouped

SIZES = st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 1000), min_size=1)


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
