"""The writers' tally is the truth: it is what their files hold, however these were rotated."""

import gzip
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.campaigns.restarts.campaign import LINE
from tests.campaigns.restarts.script import (
    FEW_FILES,
    GAP_LINES,
    WILDCARD,
    Style,
    TopicPlan,
    pairs_of,
)
from tests.campaigns.restarts.writers import Stream, TopicTally


def lines(folder: Path) -> Counter[str]:
    """All that is in files, compressed ones included, as `stream/number`."""
    contents = (
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    )
    return Counter(line.decode() for text in contents for _, line in LINE.findall(text))


def told(tally: TopicTally) -> Counter[str]:
    gap = set(tally.gap)
    return Counter(
        line
        for stream, count in tally.streams.items()
        for line in (f"{stream}/{number}" for number in range(count))
        if line not in gap
    )


def topic(folder: Path, style: Style, *, gap: bool = False) -> TopicPlan:
    return TopicPlan(
        name="t",
        style=style,
        moment=-0.02,
        layout=WILDCARD,
        files=FEW_FILES,
        folder=str(folder),
        rotated_match=True,
        gap=gap,
    )


NAMES = {
    Style.RENAME: {"app000.log", "app000.log.1"},
    Style.CHAIN: {"app000.log", "app000.log.1", "app000.log.2", "app000.log.3"},
    Style.DATE: {"app000.log", f"app000.log-{time.strftime('%Y%m%d', time.gmtime())}"},
    Style.NEW_NAME: {"app000-1.log", "app000-2.log"},
    Style.COPYTRUNCATE: {"app000.log", "app000.log.1"},
    Style.GZIP: {"app000.log", "app000.log.1.gz"},
    Style.DELETE: {"app000.log"},
}


@pytest.mark.parametrize("style", list(Style))
def test_each_style_rotates_as_it_is_called(style: Style, tmp_path: Path) -> None:
    tally = TopicTally()
    stream = Stream(topic(tmp_path, style, gap=True), 0, tally, rotates=True)
    stream.rotate()
    stream.close()
    found = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    if style is Style.DATE:  # midnight may have passed
        found = {name[: len("app000.log-")] for name in found}
        assert found == {"app000.log", "app000.log-"}
    else:
        assert found == NAMES[style]
    if style is Style.DELETE:  # only what its process wrote to the new file is left
        assert set(lines(tmp_path)) < set(told(tally))
    else:
        assert lines(tmp_path) == told(tally)
    assert len(tally.gap) == (GAP_LINES if style is Style.COPYTRUNCATE else 0)


def test_parts_have_each_pair_once_and_every_style() -> None:
    parts = [pairs_of(part, 3) for part in range(3)]
    assert len({pair for part in parts for pair in part}) == sum(map(len, parts)) == 42
    assert all({style for style, _ in part} == set(Style) for part in parts)
