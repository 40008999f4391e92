"""Finds the clusters that an inventory's files name. Ansible merges the group `all` of several
files, so the last file's `penstock_cluster` would hold for the hosts of every file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTATION = """
name: clusters
author: The authors of Penstock
short_description: Find the clusters that inventory files name
description:
  - Looks for C(penstock_cluster) in inventory files, and in C(group_vars/all) beside them. Skips
    inventories that are not text files, such as scripts and host lists.
options:
  _terms:
    description: The files, as in C(inventory_file).
    required: true
"""
RETURN = """
_raw:
  description: The distinct names, sorted.
  type: list
  elements: str
"""

# In YAML, JSON or INI.
_CLUSTER = re.compile(
    r"""^[\s{,]*["']?penstock_cluster["']?\s*[:=]\s*["']?([A-Za-z0-9._-]+)""", re.MULTILINE
)
_MOST_BYTES = 16 << 20


class LookupModule(LookupBase):
    def run(self, terms: list, variables: dict | None = None, **_kwargs: object) -> list[str]:
        del variables
        inventories = sorted({Path(str(term)) for term in terms if term})
        try:
            texts = [_text(file) for inventory in inventories for file in _sources(inventory)]
        except OSError as error:
            raise AnsibleError(f"cannot read the inventory: {error}") from error
        return sorted({name for text in texts for name in _CLUSTER.findall(text)})


def _sources(file: Path) -> Iterator[Path]:
    """The files that Ansible reads for an inventory file."""
    if not file.is_file():
        return
    yield file
    folder = file.parent / "group_vars"
    for path in (folder / "all", *folder.glob("all.y*ml"), folder / "all.json"):
        yield from sorted(path.rglob("*")) if path.is_dir() else (path,)


def _text(file: Path) -> str:
    if not file.is_file() or file.stat().st_size > _MOST_BYTES:
        return ""
    return file.read_text(encoding="utf-8", errors="replace")
