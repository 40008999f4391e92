"""Writes docs/incidents.md from what was taken."""

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.incidents.incidents import INCIDENTS
from tests.incidents.site import Taken, Typed

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PICTURES: Final = "incidents"  # their folder
_MOST_LINES: Final = 24  # of an output
_FEW_LINES: Final = 4  # of a cure's
_LONGEST: Final = 400
_INTRODUCTION: Final = """\
# Twelve incidents

<!-- Made by `make incidents` from a real run. -->

*What breaks, what you see on the page, in `penstock status`, in `penstock report` and in an \
alert, and what you type until all is green again. Each was played on one machine, with `penstock \
up`, and agents and a second broker as further hosts. Commands are typed as they are shown; \
`systemctl` and `timedatectl` on the further hosts are scripts that do to processes what they do \
to a host. `penstock up` has shorter intervals than an [audit by default](audit-configuration.md): \
an alert comes 20 s after its fault, and not after two minutes.*

What to do about each kind of finding and alert is in the [runbook](runbook.md).
"""


def write(taken: Sequence[Taken]) -> None:
    """All of it. The pictures are there already."""
    (DOCS / "incidents.md").write_text("\n".join(_lines(taken)) + "\n")


def _lines(taken: Sequence[Taken]) -> Iterator[str]:
    yield _INTRODUCTION
    yield "| incident | first sign | alert | green again |"
    yield "|---|---|---|---|"
    for each in taken:
        title, _ = _texts(each.name)
        seconds = f"{each.first_sign:.0f} s | {each.alerted:.0f} s | {each.green:.0f} s"
        yield f"| [{title}](#{_anchor(title)}) | {seconds} |"
    for each in taken:
        yield from section(each)


def section(taken: Taken) -> Iterator[str]:
    """One incident."""
    title, text = _texts(taken.name)
    yield f"\n## {title}\n"
    yield f"{text}\n"
    seen = _cell(taken.status.output.splitlines()[0])
    yield f"![The page: {seen}]({PICTURES}/{taken.name}.png)\n"
    yield f"The alert came {taken.alerted:.0f} s after the fault:\n"
    yield _block(taken.alert)
    for typed in (taken.status, taken.report):
        yield f"`{typed.command}` (exit code {typed.code}):\n"
        yield _block(typed.output)
    yield "**The cure:**\n"
    yield _block("\n".join(line for typed in taken.cure for line in _typed(typed)))
    lost = f", and {taken.lost:,} are accepted as lost" if taken.lost else ""
    lost += f", and {taken.dead:,} are dead letters" if taken.dead else ""
    yield (
        f"Green {taken.green:.0f} s after the fault. Then the application had written "
        f"{taken.written:,} lines; {taken.landed:,} have landed{lost}. In the end:\n"
    )
    yield _block("\n".join(taken.last))


def _texts(name: str) -> tuple[str, str]:
    title, _, text = inspect.cleandoc(INCIDENTS[name].play.__doc__ or "").partition("\n")
    return title, " ".join(text.split())


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def _typed(typed: Typed) -> Iterator[str]:
    yield typed.command if typed.command.startswith("#") else f"$ {typed.command}"
    lines = typed.output.splitlines()
    yield from lines[:_FEW_LINES]
    if len(lines) > _FEW_LINES:
        yield "…"


def _block(text: str) -> str:
    lines = text.rstrip().splitlines()
    shown = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in lines]
    more = ["…"] if len(lines) > _MOST_LINES else []
    return "\n".join(["```text", *shown[:_MOST_LINES], *more, "```", ""])
