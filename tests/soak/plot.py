"""What was sampled, as a picture: a panel for each kind of figure, in SVG.

A line for each life of each series. Grey is what is not judged; a thin stroke is a trouble.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Final

import msgspec

from tests.soak.flatness import TOLERANCES, Kind, Point
from tests.soak.sampling import Series

Scale = Callable[[float], float]
_WIDTH: Final = 1040
_LEFT, _TOP, _GAP = 64, 64, 44
_PLOT: Final = 700
_HEIGHT: Final = 150
_MOST_POINTS: Final = 150  # of a series
_LEGEND: Final = 13
# By the beginnings of names.
_COLOURS: Final = (
    ("broker-1", "#0969da"),
    ("broker-2", "#54aeff"),
    ("broker-3", "#0a3069"),
    ("registry-1", "#1a7f37"),
    ("registry-2", "#4ac26b"),
    ("audit", "#8250df"),
    ("web-1", "#bc4c00"),
    ("web-2", "#e16f24"),
    ("zookeeper", "#57606a"),
    ("loader", "#bf3989"),
    ("", "#9a6700"),
)
_DASHES: Final = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4")
_STYLE: Final = """\
    text { fill: #1f2328; font-size: 11px; }
    .title { font-size: 16px; font-weight: 600; }
    .panel { font-size: 13px; font-weight: 600; }
    .axis { fill: #59636e; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .warm { fill: #59636e; fill-opacity: 0.09; }
    .trouble { stroke: #cf222e; stroke-opacity: 0.35; stroke-width: 1; }
    .series { fill: none; stroke-width: 1.4; stroke-linejoin: round; }
    .paper { fill: #ffffff; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .axis { fill: #9198a1; }
      .grid { stroke: #3d444d; }
      .paper { fill: #0d1117; }
      .series { filter: brightness(1.5); }
    }"""


class Panel(msgspec.Struct, frozen=True):
    title: str
    kinds: tuple[Kind, ...]


PANELS: Final = (
    Panel("Resident memory, MiB", (Kind.MEMORY, Kind.JVM_MEMORY)),
    Panel("Open descriptors", (Kind.DESCRIPTORS,)),
    Panel("Threads", (Kind.THREADS,)),
    Panel("Logs on disk, MiB", (Kind.LOGS,)),
    Panel("Databases, journals and other files, MiB", (Kind.STATE,)),
    Panel("Log ahead of the audit's database, MiB", (Kind.AHEAD,)),
    Panel("ZooKeeper: nodes and watches", (Kind.NODES, Kind.WATCHES)),
    Panel("Load of the machine", (Kind.OTHER,)),
)


def drawn(
    title: str, series: Sequence[Series], warm: dict[Kind, float], troubles: Iterable[float] = ()
) -> str:
    """`warm`: until when each kind is not judged; `troubles`: when there were any."""
    there = [each for each in PANELS if any(one.kind in each.kinds for one in series)]
    end = max((each.points[-1].seconds for each in series if each.points), default=1.0)
    times = _Times(end, tuple(troubles))
    parts: list[str] = []
    top = float(_TOP)
    for panel in there:
        mine = [each for each in series if each.kind in panel.kinds and each.points]
        parts += _panel(panel, mine, top, warm.get(panel.kinds[0], 0.0), times)
        top += max(_HEIGHT, _LEGEND * len(mine)) + _GAP
    size = f'viewBox="0 0 {_WIDTH} {top:.0f}" width="{_WIDTH}" height="{top:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title"'
            " font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">",
            f'  <title id="title">{escape(title)}</title>',
            f"  <style>\n{_STYLE}\n  </style>",
            f'  <rect class="paper" width="{_WIDTH}" height="{top:.0f}"/>',
            f'  <text class="title" x="{_LEFT}" y="28">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


class _Times(msgspec.Struct, frozen=True):
    """What all panels have in common, in seconds."""

    end: float
    troubles: Sequence[float]


def _panel(
    panel: Panel, series: Sequence[Series], top: float, warm: float, times: _Times
) -> Iterator[str]:
    unit = next((TOLERANCES[each].unit for each in panel.kinds if each in TOLERANCES), 1.0)
    most = max(point.value for each in series for point in each.points) / unit
    step = _step(most)
    ceiling = step * (int(most / step) + 1)
    bottom = top + _HEIGHT

    def x(seconds: float) -> float:
        return _LEFT + _PLOT * seconds / times.end

    def y(value: float) -> float:
        return bottom - _HEIGHT * value / unit / ceiling

    yield f'  <text class="panel" x="{_LEFT}" y="{top - 8:.0f}">{escape(panel.title)}</text>'
    width = max(0.0, min(x(warm), _LEFT + _PLOT) - _LEFT)
    yield (
        f'  <rect class="warm" x="{_LEFT}" y="{top:.0f}" width="{width:.1f}" height="{_HEIGHT}"/>'
    )
    for count in range(int(ceiling / step) + 1):
        height = y(count * step * unit)
        yield (
            f'  <path class="grid" d="M{_LEFT} {height:.1f}h{_PLOT}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">'
            f"{count * step:g}</text>"
        )
    for minutes in _minutes(times.end):
        yield (
            f'  <text class="axis" x="{x(minutes * 60):.1f}" y="{bottom + 15:.0f}"'
            f' text-anchor="middle">{minutes:g} min</text>'
        )
    if marks := "".join(
        f"M{x(each):.1f} {bottom:.0f}v-6" for each in times.troubles if each <= times.end
    ):
        yield f'  <path class="trouble" d="{marks}"/>'
    used: defaultdict[str, int] = defaultdict(int)
    for place, each in enumerate(series):
        colour = next(one for name, one in _COLOURS if each.name.startswith(name))
        dash = _DASHES[used[colour] % len(_DASHES)]
        used[colour] += 1
        look = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
        path = "".join(_path(life, x, y) for life in _lives(each))
        yield f'  <path class="series" {look} d="{path}"/>'
        at = top + 10 + _LEGEND * place
        left = _LEFT + _PLOT + 16
        yield (
            f'  <path class="series" {look} d="M{left} {at - 4:.0f}h22"/>'
            f'<text x="{left + 28}" y="{at:.0f}">{escape(each.name)}</text>'
        )


def _lives(series: Series) -> list[list[Point]]:
    """Of each life so many points, its last one too."""
    lives: defaultdict[str, list[Point]] = defaultdict(list)
    for each in series.points:
        lives[each.life].append(each)
    stride = max(1, len(series.points) // _MOST_POINTS)
    return [[*life[:-1:stride], life[-1]] for life in lives.values()]


def _path(points: Sequence[Point], x: Scale, y: Scale) -> str:
    return "".join(
        f"{'L' if place else 'M'}{x(each.seconds):.1f} {y(each.value):.1f}"
        for place, each in enumerate(points)
    )


def _step(most: float) -> float:
    """Between lines of the grid: 1, 2 or 5 of some power of ten, so that there are 3 to 8."""
    step = 1e-3
    while True:
        for each in (1, 2, 5):
            if most / (step * each) < 6:
                return step * each
        step *= 10


def _minutes(end: float) -> list[float]:
    step = _step(end / 60)
    return [step * each for each in range(int(end / 60 / step) + 1)]
