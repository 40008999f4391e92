"""Keeps the tables of keys in docs/ up to date: Markdown between two comments in each program's
page."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from penstock.config.reference import Key, Section, is_nothing, spoken, written

BEGIN: Final = "<!-- keys: made by make reference from what stands at the fields -->"
END: Final = "<!-- end of keys -->"
NOWHERE: Final[Mapping[type, str]] = MappingProxyType({})
_BETWEEN: Final = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


class NoPlace(Exception):
    """The page has no place for its table, or more than one."""


def with_tables(
    page: str, reference: Sequence[Section], elsewhere: Mapping[type, str] = NOWHERE
) -> str:
    """Returns the page with up-to-date tables. Raises `NoPlace`.

    Each struct has one table: a second key of the same struct links to it, as does one whose struct
    another page explains (`elsewhere`: the links, by struct)."""
    if len(_BETWEEN.findall(page)) != 1:
        raise NoPlace(f"expected {BEGIN} and {END}, once each")
    tables = "\n".join(_tables(reference, elsewhere))
    return _BETWEEN.sub(lambda _: f"{BEGIN}\n\n{tables}\n{END}", page)


def links(reference: Sequence[Section], page: str = "") -> dict[type, str]:
    """Returns the link to the table of each struct, for a page that has tables of these
    sections."""
    links_by_struct: dict[type, str] = {}
    for section in reference:
        if section.struct is not None:
            links_by_struct.setdefault(section.struct, _link(section, page))
    return links_by_struct


def _tables(reference: Sequence[Section], elsewhere: Mapping[type, str]) -> Iterator[str]:
    named_sections = {section.name: section for section in reference if section.name}
    all_links = {**links(reference), **elsewhere}
    targets = {name: _target(section, all_links) for name, section in named_sections.items()}
    for section in reference:
        if section.name and targets[section.name] != _link(section):
            continue
        if section.name:
            yield f"### {_heading(section.name)}\n\n{section.about}\n"
        yield "| key | type | default | |\n|---|---|---|---|"
        for key in section.keys:
            yield f"| {' | '.join(_cells(key, named_sections, targets))} |"
        yield ""


def _target(section: Section, shown: Mapping[type, str]) -> str:
    own_link = _link(section)
    return own_link if section.struct is None else shown.get(section.struct, own_link)


def _cells(key: Key, below: Mapping[str, Section], linked: Mapping[str, str]) -> Iterator[str]:
    yield f"`{key.name}`"
    yield _choice([f"`{value}`" for value in key.allowed]) or key.type
    yield _default(key)
    meaning = key.meaning.replace("|", "\\|")
    section = next((place for place in _places(key.name) if place in below), None)
    if section is not None:
        first_sentence = meaning.partition(". ")[0] if meaning == below[section].about else meaning
        meaning = f"{first_sentence.removesuffix('.')} ([keys]({linked[section]}))."
    yield meaning


def _choice(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default == {} and key.type == "mapping":
        return ""  # its own keys have defaults
    if is_nothing(key.default):
        return "none"
    short_form = spoken(key.default, key.type)
    return f"`{written(key.default)}`" + (f" ({short_form})" if short_form else "")


def _places(name: str) -> tuple[str, ...]:
    """The possible names of a section with the keys below this key."""
    return name, f"{name}[]", f"{name}.NAME"


def _heading(section: str) -> str:
    return f"Keys of `{section}`"


def _link(section: Section, page: str = "") -> str:
    return f"{page}#{_anchor(_heading(section.name))}"


def _anchor(heading: str) -> str:
    """A heading's anchor on GitHub."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
