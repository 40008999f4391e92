"""Logins by Kerberos: SASL's GSSAPI (RFC 4752), by the system's own libraries.

Tickets are got with a keytab and lie in this process's memory, or they are found in a cache that
somebody else fills. Those of a keytab are got anew, for a new login, when half of their life is
over; if the KDC is away then, they serve on to their end. A broker never learns when they end: what
has logged in stays, until the broker wants a login again.

A KDC that does not answer keeps its asker waiting, for as long as krb5.conf says; others who want
to log in wait behind it.

The package `gssapi` is imported here and nowhere else, by the first who logs in like that.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from client.logins import Exchange, LoginFailed
from client.security import Login
from ground.kerberos import Cure, why_unreadable
from ground.printable import plain_words

_NO_LAYER: Final = 1  # RFC 4752, 3.1: what is sent after the login is sent as it is
_OFFER_BYTES: Final = 4
_MOST_STEPS: Final = 10
_ERRORS: Final = (
    2_529_638_912  # MIT's own, from here on, in the order of the protocol and behind it
)
_NO_CACHE: Final = 195
_CURES: Final[Mapping[int, Cure]] = MappingProxyType(
    {
        1: Cure.REVOKED,
        6: Cure.NO_PRINCIPAL,
        7: Cure.NO_SERVICE,
        18: Cure.REVOKED,
        23: Cure.REVOKED,
        24: Cure.OLD_KEY,
        31: Cure.OLD_KEY,
        32: Cure.ENDED,
        37: Cure.CLOCKS,
        154: Cure.NO_REALM,
        156: Cure.NO_KDC,
        164: Cure.NO_REALM,
        181: Cure.NO_KEY,
        _NO_CACHE: Cure.NONE,
        220: Cure.NO_KDC,
        224: Cure.NO_REALM,
    }
)


class Tickets:
    """Of one principal; any thread may ask."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._lock = threading.Lock()  # one asks the KDC, and the others find what it got
        self._store: dict[str, str] = {}
        if login.keytab:
            # Of this object alone: in a common one, another principal's could be taken for it.
            cache = f"MEMORY:{uuid.uuid4().hex}"
            self._store = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache}
        elif login.ccache:
            self._store = {"ccache": login.ccache}

    def exchange(self, host: str) -> Exchange:
        """What is said to the broker on this host. Raises LoginFailed, then or on the way."""
        return _exchange(*self._begun(host))

    def _begun(self, host: str) -> tuple[Any, bytes]:
        """A context, and the first that it has to say."""
        gssapi = _library()
        if self._login.keytab and (why := why_unreadable(self._login.keytab)):
            raise LoginFailed(why)
        service = f"{self._login.service}@{host}"
        with self._lock:
            tickets = self._tickets(gssapi)
            with _told(gssapi, f"no ticket for {self._login.service}/{host}"):
                context = gssapi.SecurityContext(
                    name=gssapi.Name(service, gssapi.NameType.hostbased_service),
                    creds=tickets,
                    usage="initiate",
                    mech=gssapi.MechType.kerberos,
                    flags=gssapi.RequirementFlag.mutual_authentication
                    | gssapi.RequirementFlag.integrity,
                )
                context.__DEFER_STEP_ERRORS__ = False  # what is wrong is said at once
                return context, context.step() or b""

    def _tickets(self, gssapi: Any) -> Any:
        """With which others are got."""
        login, owner = self._login, None
        with _told(gssapi, f"no ticket for {login.principal or 'this user'}"):
            if login.principal:
                owner = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            try:
                return gssapi.Credentials(name=owner, usage="initiate", store=self._store or None)
            except gssapi.exceptions.GSSError as error:
                # Without a key for this name the keytab is passed over, and a cache is missed that
                # nobody was to have filled.
                if login.keytab and error.min_code == _ERRORS + _NO_CACHE:
                    raise LoginFailed(
                        f"no ticket for {login.principal} with {login.keytab}: {Cure.NO_KEY}"
                    ) from None
                raise


def _exchange(context: Any, first: bytes) -> Exchange:
    gssapi = _library()
    said = first
    with _told(gssapi, "the broker does not prove who it is"):
        for _ in range(_MOST_STEPS):
            if context.complete:
                break
            answer = yield said
            said = context.step(answer) or b""
        if gssapi.RequirementFlag.mutual_authentication not in context.actual_flags:
            raise LoginFailed("the broker does not prove who it is")
    offer = yield said
    with _told(gssapi, "the broker's answer to GSSAPI cannot be understood"):
        layers = context.unwrap(offer).message
    if len(layers) != _OFFER_BYTES:
        raise LoginFailed("the broker's answer to GSSAPI cannot be understood")
    if not layers[0] & _NO_LAYER:
        raise LoginFailed("the broker wants Kerberos to encrypt what follows, as Kafka never does")
    # No layer, so no size of its messages; and nobody else's name to act in.
    with _told(gssapi, "the broker's answer to GSSAPI cannot be answered"):
        chosen = context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message
    yield chosen


@contextmanager
def _told(gssapi: Any, what: str) -> Iterator[None]:
    """What the library raises, in one line with what helps."""
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        raise LoginFailed(f"{what}: {_reason(gssapi, error)}") from None


def _reason(gssapi: Any, error: Any) -> str:
    code, is_major = (error.min_code, False) if error.min_code else (error.maj_code, True)
    said = plain_words("; ".join(error.get_all_statuses(code, is_major)))
    cure = _CURES.get(error.min_code - _ERRORS)
    if cure is None and isinstance(error, gssapi.exceptions.ExpiredCredentialsError):
        cure = Cure.ENDED
    if cure is None and isinstance(error, gssapi.exceptions.MissingCredentialsError):
        cure = Cure.NONE
    return f"{said} ({cure})" if cure else said


def _library() -> Any:
    try:
        import gssapi  # noqa: PLC0415 -- few log in like that, and have it
    except ImportError as error:
        raise LoginFailed(
            "Kerberos needs the package gssapi: pip install gssapi, with gcc, "
            f"python3-dev and libkrb5-dev ({plain_words(str(error))})"
        ) from None
    return gssapi
