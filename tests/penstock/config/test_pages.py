"""The tables of keys in docs/: current, whole, and written where they belong."""

import pytest

from penstock.config.pages import BEGIN, END, NoPlace, with_tables
from penstock.config.reference import KINDS, Key, Section, sections


@pytest.mark.parametrize("program", KINDS)
def test_meanings_are_sentences(program: str) -> None:
    for section in sections(KINDS[program]):
        for key in section.keys:
            assert key.meaning.endswith("."), key
            assert key.meaning[0].isupper() or key.meaning[0] in "`[", key
            assert "\n" not in key.meaning, key


def key(name: str, **said: object) -> Key:
    of = {"type": "text", "allowed": (), "required": False, "default": "", "meaning": "What it is."}
    return Key(**{"name": name, **of, **said})  # type: ignore[arg-type]


def rows(*keys: Key, below: tuple[Section, ...] = ()) -> list[str]:
    page = with_tables(f"{BEGIN}\n{END}", (Section("", "", keys), *below))
    return [line for line in page.splitlines() if line.startswith("| `")]


def test_a_row_says_type_default_and_meaning() -> None:
    assert rows(
        key("plain"),
        key("needed", required=True, default=None),
        key("few", allowed=("a", "b", "c"), default="b"),
        key("size", type="bytes", default=2**20),
        key("pattern", meaning="`a|b`."),
    ) == [
        "| `plain` | text | none | What it is. |",
        "| `needed` | text | required | What it is. |",
        "| `few` | `a`, `b` or `c` | `b` | What it is. |",
        "| `size` | bytes | `1048576` (1 MiB) | What it is. |",
        "| `pattern` | text | none | `a\\|b`. |",
    ]


def test_a_mapping_leads_to_its_keys() -> None:
    about = "How it goes. One of two."
    inner = Section("many[]", about, (key("many[].one"),))
    row, _ = rows(key("many", type="list of mappings", default=(), meaning=about), below=(inner,))
    assert row == "| `many` | list of mappings | none | How it goes ([keys](#keys-of-many)). |"


def test_a_page_has_one_place_for_it() -> None:
    for page in ("# The broker\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", f"{END}\n{BEGIN}\n"):
        with pytest.raises(NoPlace):
            with_tables(page, ())
