"""The page on which people log in: a file of the page, with what is said on it put in.

It works without scripts. What came from outside is put in as text of an attribute, and only where
it is a place of ours; what is said is one of a few sentences.
"""

import re
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from audit.http.bodies import BadBody
from audit.http.page_files import PageFile
from audit.http.responses import FRESH, PageAnswer

LOGIN: Final = "login.html"
MOST_BYTES: Final = 8 * 1024  # of what is typed

_HTML: Final = "text/html; charset=utf-8"
_SAID: Final = "<!-- said -->"
_NEXT: Final = "<!-- next -->"
_FIELDS: Final = frozenset({"user", "password", "next"})
# A path of this host, and what may follow it: neither `//host` nor `/\host`, which lead elsewhere.
_PLACE: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")


def login_page(
    files: Mapping[str, PageFile],
    place: str,
    said: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> PageAnswer:
    body = files[LOGIN].body.decode()
    told = f'<p class="login-said" role="alert">{escape(said)}</p>' if said else ""
    body = body.replace(_SAID, told).replace(_NEXT, escape(safe_place(place)))
    return PageAnswer(body.encode(), _HTML, status, {**FRESH, **(headers or {})})


def safe_place(place: str) -> str:
    """Where to go after the login, if that is one of ours; the overview otherwise."""
    return place if _PLACE.fullmatch(place) else "/"


def typed(body: bytes) -> dict[str, str]:
    """What the form sends. Raises BadBody."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=len(_FIELDS),
        )
    except ValueError:
        raise BadBody("the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) < len(pairs) or not fields.keys() <= _FIELDS:
        raise BadBody("the form has other fields")
    return {name: fields.get(name, "") for name in _FIELDS}
