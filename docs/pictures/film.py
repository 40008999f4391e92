"""Frames of a terminal as one animated SVG, without a script. Pure.

All frames stand side by side and are pulled past a window, by one CSS animation. A row that several
frames have is there once. Where motion is not wanted, or CSS is not known, the last frame stands.
Every span has its column's position, as the reader's font may have another width.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from docs.pictures.terminal import Frame, Row, Span

SECONDS: Final = 20.0
_LONGEST_PAUSE: Final = 1.0
_SHORTEST: Final = 0.25  # a frame that is shorter is left out
_READING: Final = 3.0  # what a command left behind stays so long
_COLUMN: Final = 8.0
_LINE: Final = 19
_MARGIN: Final = 18
_BAR: Final = 34
_STYLE: Final = """\
svg{--back:#fff;--bar:#eef1f5;--edge:#c9d1da;--text:#1f2933;--soft:#57636f;--c1:#c0182b;--c2:#0b7a3b;\
--c3:#8a5a00;--c4:#1d5fbf;--c5:#9b2393;--c6:#0b7285}
@media(prefers-color-scheme:dark){svg{--back:#0d1218;--bar:#1a222c;--edge:#33404e;--text:#dbe3ec;\
--soft:#94a3b3;--c1:#ff7b86;--c2:#56d47f;--c3:#f0c04c;--c4:#7db7ff;--c5:#e78be0;--c6:#5fd0e0}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",\
monospace;fill:var(--text)}
.b{font-weight:700}.s{fill:var(--soft)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}\
.c4{fill:var(--c4)}.c5{fill:var(--c5)}.c6{fill:var(--c6)}"""


class Still(NamedTuple):
    """A frame, and how long it is shown."""

    frame: Frame
    seconds: float


def paced(frames: Sequence[Frame]) -> list[Still]:
    """With every wait cut short, and time to read results; together as long as a film is."""
    stills = []
    for frame, after in zip(frames, [*frames[1:], None], strict=True):
        pause = _LONGEST_PAUSE if after is None else min(after.time - frame.time, _LONGEST_PAUSE)
        seconds = _READING if frame.is_result else pause
        if seconds >= _SHORTEST and any(frame.rows):
            stills.append(Still(frame, seconds))
    whole = sum(each.seconds for each in stills)
    return [each._replace(seconds=each.seconds * SECONDS / whole) for each in stills]


def svg(stills: Sequence[Still], columns: int, rows: int, *, title: str, comment: str) -> str:
    """The film; `title` is for those who do not see it."""
    width = round(columns * _COLUMN) + 2 * _MARGIN
    height = _BAR + rows * _LINE + _MARGIN
    known: dict[Row, str] = {}
    drawn = "\n".join(_drawn(still.frame, at * width, known) for at, still in enumerate(stills))
    last = (len(stills) - 1) * width
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
<!-- {comment} -->
<title id="title">{escape(title)}</title>
<style>
{_STYLE}
.film{{transform:translateX(-{last}px);animation:film {SECONDS:g}s step-end infinite}}
@media(prefers-reduced-motion:reduce){{.film{{animation:none}}}}
@keyframes film{{{"".join(_steps(stills, width))}}}
</style>
<defs>
{"".join(f'<g id="{name}">{_row(row)}</g>' for row, name in known.items())}
</defs>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="var(--back)" \
stroke="var(--edge)"/>
<path d="M1 {_BAR}V8a7 7 0 0 1 7-7h{width - 16}a7 7 0 0 1 7 7V{_BAR}z" fill="var(--bar)"/>
<svg width="{width}" height="{height}">
<g class="film">
{drawn}
</g>
</svg>
</svg>
"""


def _steps(stills: Sequence[Still], width: int) -> Iterator[str]:
    begins = 0.0
    for at, still in enumerate(stills):
        yield f"{begins / SECONDS:.2%}{{transform:translateX(-{at * width}px)}}"
        begins += still.seconds


def _drawn(frame: Frame, x: int, known: dict[Row, str]) -> str:
    right = (
        f'<text class="s" x="{_MARGIN}" y="22">{escape(frame.title)} · {frame.time:.0f} s</text>'
    )
    uses = "".join(
        f'<use href="#{known.setdefault(row, f"r{len(known)}")}" y="{_BAR + number * _LINE}"/>'
        for number, row in enumerate(frame.rows, 1)
        if row
    )
    return f'<g transform="translate({x})">{right}{uses}</g>'


def _row(row: Row) -> str:
    return f"<text>{''.join(map(_span, row))}</text>"


def _span(span: Span) -> str:
    classes = [f"c{span.style.colour}"] if span.style.colour else []
    classes += ["b"] if span.style.bold else []
    styled = f' class="{" ".join(classes)}"' if classes else ""
    x = _MARGIN + span.column * _COLUMN
    return f'<tspan x="{x:g}"{styled}>{escape(span.text, quote=False)}</tspan>'
