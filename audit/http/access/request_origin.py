"""Tells whether a request comes from a page of this audit, another page, or a program. Pure."""

from starlette.types import Scope

from audit.http.responses import header, values


def is_from_browser(scope: Scope) -> bool:
    """Whether a browser sent the request. Browsers add `Origin` to every request that changes
    something."""
    return bool(values(scope, b"origin") or values(scope, b"sec-fetch-site"))


def is_from_own_page(scope: Scope, *, is_encrypted: bool) -> bool:
    """Whether a browser sent the request from a page of this audit."""
    origins, hosts = values(scope, b"origin"), values(scope, b"host")
    if len(origins) != 1 or len(hosts) != 1:
        return False
    if any(site != "same-origin" for site in values(scope, b"sec-fetch-site")):
        return False
    scheme, _, host = origins[0].lower().partition("://")
    # Without `tls`, a proxy in front may terminate TLS.
    schemes = {"https"} if is_encrypted else {"http", "https"}
    return scheme in schemes and host == hosts[0].lower()


def host_name(scope: Scope) -> str:
    """Returns the `Host` header without its port."""
    host = header(scope, b"host").lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
