"""Screenshots as small PNGs: at most 256 colours, those that most pixels have."""

import base64
import struct
import zlib
from typing import Final

import numpy as np
from playwright.sync_api import Page

_COLOURS: Final = 256
_DECODED: Final = """async ([encoded, width, height]) => {
    const image = new Image();
    image.src = "data:image/png;base64," + encoded;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const bytes = context.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < bytes.length; at += 32768)
        text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    return [btoa(text), image.width, image.height];
}"""


def palette_png(png: bytes, page: Page) -> bytes:
    """`page` is an empty one, whose browser decodes the picture."""
    encoded, width, height = page.evaluate(_DECODED, [base64.b64encode(png).decode(), 0, 0])
    pixels = np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(-1, 4)[:, :3]
    colours, at, counts = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-counts)[:_COLOURS]].astype(np.int32)
    nearest = [np.abs(kept - colour).sum(axis=1).argmin() for colour in colours.astype(np.int32)]
    rows = np.array(nearest, np.uint8)[at.reshape(-1)].reshape(height, width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", kept.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
