"""Which clusters files of an inventory are of, by what they say themselves: Ansible puts `all` of
several files together, and has the last one's word for every host then."""

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
short_description: Which clusters files of an inventory are of
description:
  - Looks for C(penstock_cluster) in files of an inventory, and in C(group_vars/all) beside them.
    What is no text, as a script or an address, says nothing.
options:
  _terms:
    description: The files, as C(inventory_file) has them.
    required: true
"""
RETURN = """
_raw:
  description: Each name once, in order.
  type: list
  elements: str
"""

# In YAML, JSON or INI.
_SAID = re.compile(
    r"""^[\s{,]*["']?penstock_cluster["']?\s*[:=]\s*["']?([A-Za-z0-9._-]+)""", re.MULTILINE
)
_LONGEST = 16 << 20


class LookupModule(LookupBase):
    def run(self, terms: list, variables: dict | None = None, **_kwargs: object) -> list[str]:
        del variables
        files = sorted({Path(str(each)) for each in terms if each})
        try:
            texts = [_text(each) for file in files for each in _read_with(file)]
        except OSError as error:
            raise AnsibleError(f"the inventory cannot be read: {error}") from error
        return sorted({name for text in texts for name in _SAID.findall(text)})


def _read_with(file: Path) -> Iterator[Path]:
    """What Ansible has read for a file of an inventory."""
    if not file.is_file():
        return
    yield file
    beside = file.parent / "group_vars"
    for each in (beside / "all", *beside.glob("all.y*ml"), beside / "all.json"):
        yield from sorted(each.rglob("*")) if each.is_dir() else (each,)


def _text(file: Path) -> str:
    if not file.is_file() or file.stat().st_size > _LONGEST:
        return ""
    return file.read_text(encoding="utf-8", errors="replace")
