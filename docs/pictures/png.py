"""Screenshots as small PNG files: one byte a pixel, at most 256 colours, no dithering. Pure.

Text in a page has few colours and their mixtures with the background: mixtures become the nearest
frequent colour.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {2: 3, 6: 4}  # RGB and RGBA, by colour type
_MOST_COLOURS: Final = 256
_FARTHEST: Final = 442  # black and white are not so far from each other
_PALETTE: Final = 3
Pixels = npt.NDArray[np.uint8]


def small(png: bytes, texts: dict[str, str]) -> bytes:
    """The same picture with few colours, and with these texts as chunks."""
    pixels = _pixels(png)
    height, width, _ = pixels.shape
    colours, numbers, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    palette = _palette(colours[np.argsort(-counts, kind="stable")])
    nearest = np.stack([_distances(colours, each) for each in palette]).argmin(axis=0)
    rows = nearest.astype(np.uint8)[numbers.reshape(height, width)]
    filtered = np.zeros((height, width + 1), np.uint8)  # each row begins with its filter: none
    filtered[:, 1:] = rows
    header = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", palette.tobytes())]
    parts += [(b"tEXt", f"{key}\0{text}".encode("latin-1")) for key, text in texts.items()]
    return written([*parts, (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b"")])


def _palette(colours: Pixels) -> Pixels:
    """The most frequent of them, given in that order, so that each other one is near to one of
    these: a rare colour that is like no other is kept."""
    for near in range(_FARTHEST):
        kept: list[Pixels] = []
        left = colours
        while len(left) and len(kept) <= _MOST_COLOURS:
            kept.append(left[0])
            left = left[_distances(left, left[0]) > near**2]
        if len(kept) <= _MOST_COLOURS:
            break
    return np.array(kept, np.uint8)


def _distances(colours: Pixels, one: Pixels) -> npt.NDArray[np.int64]:
    """Squared."""
    squares: npt.NDArray[np.int64] = (colours.astype(np.int64) - one.astype(np.int64)) ** 2
    return squares[:, 0] + squares[:, 1] + squares[:, 2]


def written(chunks: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A file of chunks: each its kind and its content."""
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The file's, each as its kind and its content."""
    at = len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _pixels(png: bytes) -> Pixels:
    """Of a PNG as Chromium writes it: height, width, and three bytes a pixel."""
    parts = list(chunks(png))
    width, height, _, kind = struct.unpack_from(">IIBB", parts[0][1])
    step = _CHANNELS[kind]
    packed = b"".join(content for name, content in parts if name == b"IDAT")
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * step + 1)
    pixels = np.zeros((height + 1, (width + 1) * step), np.uint8)  # zeros above and to the left
    for number, row in enumerate(rows, 1):
        _unfilter(int(row[0]), row[1:], pixels[number - 1], pixels[number], step)
    return pixels[1:, step:].reshape(height, width, step)[:, :, :3]


def _unfilter(kind: int, row: Pixels, above: Pixels, into: Pixels, step: int) -> None:
    """A row's bytes from their differences to what is left of them and above."""
    if kind == 0:
        into[step:] = row
    elif kind == 2:
        into[step:] = row + above[step:]
    elif kind == 1:
        summed = row.reshape(-1, step).cumsum(axis=0, dtype=np.uint64)
        into[step:] = summed.astype(np.uint8).reshape(-1)
    else:
        line, upper = bytearray(len(into)), above.tobytes()
        for at, value in enumerate(row.tobytes(), step):
            left, up, corner = line[at - step], upper[at], upper[at - step]
            guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
            line[at] = value + guess & 255
        into[:] = line


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
