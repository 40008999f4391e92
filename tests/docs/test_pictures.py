"""What the README's pictures are made with: the terminal's screen, the film, small PNG files."""

import struct
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest

from docs.pictures import film, png
from docs.pictures.shown import Picture
from docs.pictures.terminal import Frame, Screen, Span, Style, Terminal

RED = Style(colour=1)


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("one\r\ntwo", [["one"], ["two"]]),
        ("a  b c\r\n", [["a", "b c"], []]),  # columns are spans of their own
        ("old\rn\r\n", [["nld"], []]),
        ("12345678901234", [["1234567890"], ["1234"]]),  # wrapped
        ("1\r\n2\r\n3\r\n4", [["2"], ["3"], ["4"]]),  # scrolled
        ("old\r\nlines\x1b[Hnew\x1b[K\r\n\x1b[J", [["new"], []]),
        ("kept\r\n\x1b[?1049h\x1b[?7l12345678901234", [["1234567890"]]),
        ("kept\r\n\x1b[?1049hother\x1b[?1049lafter", [["kept"], ["after"]]),
    ],
)
def test_a_screen(said: str, rows: list[list[str]]) -> None:
    screen = Screen(10, 3)
    screen.feed(said)
    assert [[span.text for span in row] for row in screen.rows()] == rows


def test_a_screen_has_colours_and_columns() -> None:
    screen = Screen(20, 3)
    screen.feed("a \x1b[1;31mbad\x1b[0m end")
    bad = Span(2, "bad", Style(colour=1, bold=True))
    assert screen.rows() == ((Span(0, "a", Style()), bad, Span(6, "end", Style())),)


@pytest.mark.parametrize("said", ["\x1b[5;5H", "\x1b]0;title\x07", "\x1b[48;5;1mx"])
def test_a_screen_says_what_it_does_not_know(said: str) -> None:
    with pytest.raises(ValueError, match="does not know"):
        Screen(10, 3).feed(said)


@pytest.mark.not_quick("starts a shell")
def test_a_terminal_keeps_what_a_command_printed() -> None:
    terminal = Terminal(40, 5, {})
    script = "test -t 1 && stty size && printf '\\033[31m✗\\033[0m <b>\\n'"
    terminal.run("web-2$", "try", ["sh", "-c", script])
    shown = [[span.text for span in row] for row in terminal.frames[-1].rows]
    assert shown == [["web-2$", "try"], ["5 40"], ["✗", "<b>"], []]
    assert terminal.frames[-1].is_result


def test_a_film_is_as_long_as_it_says_and_escapes_what_it_shows(tmp_path: Path) -> None:
    row = (Span(0, "<script>&", RED),)
    frames = [
        Frame(0, (row,), "<b>"),
        Frame(0.1, ((),), "too short"),
        Frame(0.2, (row, row), "waits for an hour"),
        Frame(3600, (row,), "done", is_result=True),
    ]
    stills = film.paced(frames)
    assert sum(each.seconds for each in stills) == pytest.approx(film.SECONDS)
    assert stills[0].seconds == pytest.approx(stills[1].seconds / 3)
    drawn = film.svg(stills, 40, 5, title="<title>", comment="shows nothing")
    root = ET.fromstring(drawn)
    assert "script" not in {each.tag.rpartition("}")[2] for each in root.iter()}
    assert drawn.count("&lt;script&gt;&amp;") == 1  # a row is there once
    assert "3600 s" in drawn
    assert "prefers-reduced-motion" in drawn


@pytest.mark.parametrize("kind", range(5))
def test_a_png_of_few_colours_is_the_same_picture(kind: int) -> None:
    """Whichever filter its rows have."""
    pixels = np.random.default_rng(kind).choice(np.array([0, 9, 200, 255], np.uint8), (5, 7, 3))
    made = png.small(_filtered(pixels, kind), {"penstock-shows": "0" * 64})
    chunks = dict(png.chunks(made))
    assert chunks[b"tEXt"] == b"penstock-shows\0" + b"0" * 64
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(5, 8)
    assert (palette[rows[:, 1:]] == pixels).all()


def _filtered(pixels: png.Pixels, kind: int) -> bytes:
    """A PNG whose rows have this filter, as its specification says."""
    height, width, _ = pixels.shape
    wide = np.zeros((height + 1, width + 1, 3), np.int32)
    wide[1:, 1:] = pixels
    left, up, corner = wide[1:, :-1], wide[:-1, 1:], wide[:-1, :-1]
    near = np.stack([left, up, corner])
    nearest = np.abs(left + up - corner - near).argmin(axis=0)
    paeth = np.take_along_axis(near, nearest[None], axis=0)[0]
    guess = [np.zeros_like(left), left, up, (left + up) // 2, paeth][kind]
    rows = ((wide[1:, 1:] - guess) % 256).astype(np.uint8).reshape(height, width * 3)
    raw = b"".join(bytes([kind]) + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return png.written([(b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")])


def test_mixtures_become_a_frequent_colour_and_a_rare_colour_stays() -> None:
    pixels = np.zeros((30, 30, 3), np.uint8)
    pixels[:, :, 0] = np.arange(900).reshape(30, 30) % 256
    pixels[:, :, 2] = np.arange(900).reshape(30, 30) // 256
    pixels[7, 7] = 0, 255, 0
    chunks = dict(png.chunks(png.small(_filtered(pixels, 1), {})))
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(30, 31)
    far = np.abs(palette[rows[:, 1:]].astype(int) - pixels)
    assert len(palette) <= 256
    assert far.max() <= 3
    assert (far[7, 7] == 0).all()


def test_a_picture_is_old_once_a_source_has_changed(tmp_path: Path) -> None:
    source = "audit/page/icon.svg"
    picture = Picture(tmp_path / "taken.svg", "icon", (source,))
    assert not picture.is_current()
    picture.path.write_text(f"<!-- penstock-shows {picture.fingerprint()} -->")
    assert picture.is_current()
    assert not picture._replace(sources=(source, "audit/page/login.html")).is_current()
