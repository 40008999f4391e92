"""The files of the page, held in memory and found by name.

A requested name is looked up in a table of the files in `audit/page`, and never becomes a path.
Browsers revalidate with each request, by the file's hash as ETag.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).resolve().parent.parent / "page"
INDEX: Final = "index.html"

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


class PageFile(msgspec.Struct, frozen=True):
    body: bytes
    content_type: str
    etag: str


def page_files(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """Returns the files to serve, by their paths in the folder."""
    return {
        path.relative_to(folder).as_posix(): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES and path.is_file()
    }


def _file(path: Path) -> PageFile:
    body = path.read_bytes()
    return PageFile(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
