"""The fenced blocks of a page, and what the comments before them say of them. Pure.

A comment on a line of its own, right before a block, is for the tests and not for readers:

    <!-- not run: why -->              a shell block that the tests leave alone
    <!-- needs pkill -->               left alone where there is no such command, but not in CI
    <!-- run -->                       of Python: it is run, as shell blocks are
    <!-- exits 1 -->                   it ends with that code
    <!-- until it succeeds -->         it is tried again until it does, and prints what the
                                       output block right after it shows
    <!-- agent.yaml -->                put down under this name first; a program's configuration
                                       is held against that program
    <!-- output -->                    lines that the shell block before it prints, … for anything

Shell blocks are run unless they say otherwise. Blocks of other programs have no comment.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,})(?P<language>[^`\s]*)\s*")
_COMMENT = re.compile(r" *<!-- (?P<remark>.+) -->\s*")
_EXITS = re.compile(r"exits (\d+)")
_FILE = re.compile(r"[\w./-]+\.[a-z]+")


class Block(NamedTuple):
    """One fenced block."""

    page: str  # from the repository's root
    line: int  # of its fence, from 1 on
    language: str
    text: str
    remarks: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def not_run(self) -> bool:
        return any(remark.startswith("not run: ") for remark in self.remarks)

    @property
    def is_run(self) -> bool:
        if self.language == "python":
            return "run" in self.remarks
        return self.language == "sh" and not self.not_run

    @property
    def needs(self) -> str:
        """A command that not every machine has; empty if it needs none."""
        needed = (each.removeprefix("needs ") for each in self.remarks if each[:6] == "needs ")
        return next(needed, "")

    @property
    def exit_code(self) -> int:
        codes = [int(found[1]) for each in self.remarks if (found := _EXITS.fullmatch(each))]
        return codes[0] if codes else 0

    @property
    def is_tried_again(self) -> bool:
        return "until it succeeds" in self.remarks

    @property
    def is_output(self) -> bool:
        return "output" in self.remarks

    @property
    def file(self) -> str | None:
        """The name under which it is put down."""
        return next((each for each in self.remarks if _FILE.fullmatch(each)), None)


def pages() -> list[Path]:
    """All that a user reads: the README and docs/, but for decisions, which are history."""
    found = [
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "decisions" and page.name != "ARCHITECTURE.md"
    ]
    return [ROOT / "README.md", *found]


def blocks_of(page: Path) -> list[Block]:
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    return list(blocks_in(page.read_text(encoding="utf-8"), name))


def blocks_in(text: str, page: str) -> Iterator[Block]:
    """Raises ValueError for a fence without an end."""
    lines = iter(enumerate(text.splitlines(), 1))
    remarks: list[str] = []
    for number, line in lines:
        if comment := _COMMENT.fullmatch(line):
            remarks.append(comment["remark"])
        elif fence := _FENCE.fullmatch(line):
            inner = []
            for _, each in lines:
                if each.strip() == fence["fence"]:
                    break
                inner.append(each.removeprefix(fence["indent"]))
            else:
                raise ValueError(f"{page}:{number}: a fence without an end")
            body = "".join(f"{each}\n" for each in inner)
            yield Block(page, number, fence["language"], body, tuple(remarks))
            remarks = []
        elif line.strip():
            remarks = []
