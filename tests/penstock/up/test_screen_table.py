"""Tables that are fitted to a width."""

from rich.text import Text

from penstock.up.screen_picture import Column, table


def texts(*cells: str) -> list[Text]:
    return [Text(each) for each in cells]


COLUMNS = [
    Column("name", texts("a-long-name", "b"), 0),
    Column("first to go", texts("1", "22"), 2, right=True),
    Column("second", texts("x", ""), 1),
]


def plain(width: int, columns: list[Column] = COLUMNS) -> list[str]:
    return [line.plain for line in table(columns, width)]


def test_with_room_for_all() -> None:
    assert plain(80) == [
        "name         first to go  second",
        "a-long-name            1  x",
        "b                     22",
    ]


def test_columns_go_in_their_order_and_then_names_are_cut() -> None:
    assert plain(31)[0] == "name         second"
    assert plain(18)[0] == "name"
    assert plain(10) == ["name", "a-long-na…", "b"]
    assert plain(3) == ["na…", "a-…", "b"]


def test_wide_characters_count_as_what_they_take() -> None:
    columns = [Column("", texts("日本", "ab"), 0), Column("", texts("1", "2"), 0)]
    assert plain(80, columns) == ["日本  1", "ab    2"]


def test_an_empty_column_takes_no_room() -> None:
    columns = [Column("", texts("a"), 0), Column("", texts(""), 0), Column("", texts("b"), 0)]
    assert plain(80, columns) == ["a  b"]
