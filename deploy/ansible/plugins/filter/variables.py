"""Finds variables of an inventory that no part of the collection reads, such as misspelt ones.

A variable is known if its name occurs in the collection's playbooks or roles. Variables of users
begin with `penstock_local_`, or with anything but `penstock_`.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.penstock.pipeline.plugins.filter.inventory import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COLLECTION = Path(__file__).resolve().parents[2]
_PREFIX = "penstock_"
_OWN = "penstock_local_"
_NAME = re.compile(r"\bpenstock_[a-z0-9_]+")
_OPTION = re.compile(r"^ +(penstock_[a-z0-9_]+):", re.MULTILINE)
_SIMILAR = 0.65
_MOST_PROBLEMS = 20
_MOST_PLACES = 3
_MOST_BYTES = 16 << 20


def unknown_variables(hostvars: dict, sources: list[str]) -> list[str]:
    """Returns a problem for each unknown variable of these hosts, with the places in the
    inventory's files that set it."""
    hosts_by_name: dict[str, list[str]] = {}
    for host, variables in hostvars.items():
        for name in variables:
            if name.startswith(_PREFIX) and not name.startswith(_OWN):
                hosts_by_name.setdefault(str(name), []).append(str(host))
    unknown_names = sorted(hosts_by_name.keys() - _names("roles", "playbooks"))[:_MOST_PROBLEMS]
    count = len(hostvars)
    problems = []
    for name in unknown_names:
        hosts = hosts_by_name[name]
        place = _places(name, sources) or (
            f"of {'all hosts' if len(hosts) == count else _few(hosts)}, set with -e or in a file "
            "that is encrypted or a program"
        )
        problems.append(
            f"the collection has no variable {name} ({place}), so it would have no effect: "
            f"{_hint(name)}"
        )
    return problems


def _names(*folders: str) -> set[str]:
    """All names in the collection's playbooks, tasks, templates and specifications."""
    files = (path for folder in folders for path in (_COLLECTION / folder).rglob("*"))
    texts = (path.read_text("utf-8") for path in files if path.suffix in {".yml", ".j2"})
    return {name for text in texts for name in _NAME.findall(text)}


def _hint(name: str) -> str:
    specs = (_COLLECTION / "roles").glob("*/meta/argument_specs.yml")
    options = {option for path in specs for option in _OPTION.findall(path.read_text("utf-8"))}
    candidates = sorted((options | _names("playbooks")) - {*GROUPS})
    # Without the prefix, which would make all names similar.
    words = [candidate.removeprefix(_PREFIX) for candidate in candidates]
    matches = difflib.get_close_matches(name.removeprefix(_PREFIX), words, 1, _SIMILAR)
    if matches:
        return f"did you mean {_PREFIX}{matches[0]}?"
    return f"begin the names of your own variables with {_OWN}"


def _places(name: str, sources: list[str]) -> str:
    assignment = re.compile(rf"""^(?!\s*[#;]).*(?<!\w){re.escape(name)}["']?\s*[:=]""")
    places = {
        f"{source_name}:{line_number}": None
        for source_name, text in _texts(sources)
        for line_number, line in enumerate(text.splitlines(), 1)
        if assignment.match(line)
    }
    return _few([*places])


def _few(values: list[str]) -> str:
    return ", ".join(values[:_MOST_PLACES]) + (", …" if len(values) > _MOST_PLACES else "")


def _texts(sources: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The text files of inventories, with their paths below the inventory's folder."""
    for source in map(Path, sources):
        folder = source if source.is_dir() else source.parent
        folders = [folder] if source.is_dir() else [folder / "group_vars", folder / "host_vars"]
        files = [source, *(path for parent in folders for path in sorted(parent.rglob("*")))]
        for path in files:
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                yield str(path.relative_to(folder)), path.read_text("utf-8", "replace")


class FilterModule:
    def filters(self) -> dict:
        return {"unknown_variables": unknown_variables}
