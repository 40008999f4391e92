"""The login page: a file of the page, completed with a message and the path to open after the
login.

It works without scripts. Of input, only the place is filled in, escaped in an attribute, and only
if it is a path of this audit; the message is one of a few sentences.
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
MOST_BYTES: Final = 8 * 1024  # of a form

_HTML: Final = "text/html; charset=utf-8"
_SAID: Final = "<!-- said -->"
_NEXT: Final = "<!-- next -->"
_FIELDS: Final = frozenset({"user", "password", "next"})
# A path of this host: neither `//host` nor `/\host`, which lead to another one.
_PLACE: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")


def login_page(
    files: Mapping[str, PageFile],
    place: str,
    words: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> PageAnswer:
    body = files[LOGIN].body.decode()
    alert = f'<p class="login-said" role="alert">{escape(words)}</p>' if words else ""
    body = body.replace(_SAID, alert).replace(_NEXT, escape(safe_place(place)))
    return PageAnswer(body.encode(), _HTML, status, {**FRESH, **(headers or {})})


def safe_place(place: str) -> str:
    """Returns `place` as the path to open after the login, or the overview if `place` is not a
    local path."""
    return place if _PLACE.fullmatch(place) else "/"


def typed(body: bytes) -> dict[str, str]:
    """Parses the fields of the login form. Raises BadBody."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=len(_FIELDS),
        )
    except ValueError:
        raise BadBody("the form cannot be parsed") from None
    fields = dict(pairs)
    if len(fields) < len(pairs) or not fields.keys() <= _FIELDS:
        raise BadBody("the form has unexpected fields")
    return {name: fields.get(name, "") for name in _FIELDS}
