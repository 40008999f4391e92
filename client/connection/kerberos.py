"""Logins by Kerberos: SASL's GSSAPI (RFC 4752), by the system's own libraries.

Tickets are obtained with a keytab and kept in this process's memory, or taken from a cache that
another program fills. Those of a keytab are renewed, at a login, once half of their lifetime is
over; while the KDC is unavailable they are used until they expire. Brokers do not learn when
tickets expire: a connection stays logged in until the broker requires a new login.

A KDC that does not answer delays the caller as long as krb5.conf says, and other logins with it.

The package `gssapi` is imported only here, at the first such login.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from client.connection.logins import Exchange, LoginFailed
from client.connection.security import Login
from ground.logins.kerberos import Cure, why_unreadable
from ground.printable import plain_words

_NO_LAYER: Final = 1  # RFC 4752, 3.1: no wrapping of what follows the login
_OFFER_BYTES: Final = 4
_MOST_STEPS: Final = 10
_ERRORS: Final = (
    2_529_638_912  # the first of MIT's error codes, which begin in the order of the protocol
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
    """The tickets of one principal. Thread-safe."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._lock = threading.Lock()  # one thread asks the KDC, others use its tickets
        self._store: dict[str, str] = {}
        if login.keytab:
            # For this object alone: from a shared cache another principal's tickets could be used.
            cache = f"MEMORY:{uuid.uuid4().hex}"
            self._store = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache}
        elif login.ccache:
            self._store = {"ccache": login.ccache}

    def exchange(self, host: str) -> Exchange:
        """Starts the exchange with the broker on this host. Raises LoginFailed, at once or during
        the exchange."""
        return _exchange(*self._begun(host))

    def _begun(self, host: str) -> tuple[Any, bytes]:
        """Returns a security context and its first token."""
        gssapi = _library()
        if self._login.keytab and (reason := why_unreadable(self._login.keytab)):
            raise LoginFailed(reason)
        service = f"{self._login.service}@{host}"
        with self._lock:
            tickets = self._tickets(gssapi)
            with _login_errors(gssapi, f"no ticket for {self._login.service}/{host}"):
                context = gssapi.SecurityContext(
                    name=gssapi.Name(service, gssapi.NameType.hostbased_service),
                    creds=tickets,
                    usage="initiate",
                    mech=gssapi.MechType.kerberos,
                    flags=gssapi.RequirementFlag.mutual_authentication
                    | gssapi.RequirementFlag.integrity,
                )
                context.__DEFER_STEP_ERRORS__ = False  # raise errors at once
                return context, context.step() or b""

    def _tickets(self, gssapi: Any) -> Any:
        """Returns the credentials with which service tickets are obtained."""
        login, owner = self._login, None
        with _login_errors(gssapi, f"no ticket for {login.principal or 'this user'}"):
            if login.principal:
                owner = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            try:
                return gssapi.Credentials(name=owner, usage="initiate", store=self._store or None)
            except gssapi.exceptions.GSSError as error:
                # If the keytab has no key for this name, the library ignores it and reports a
                # missing cache instead.
                if login.keytab and error.min_code == _ERRORS + _NO_CACHE:
                    raise LoginFailed(
                        f"no ticket for {login.principal} with {login.keytab}: {Cure.NO_KEY}"
                    ) from None
                raise


def _exchange(context: Any, first: bytes) -> Exchange:
    gssapi = _library()
    token = first
    with _login_errors(gssapi, "the broker did not prove its identity"):
        for _ in range(_MOST_STEPS):
            if context.complete:
                break
            challenge = yield token
            token = context.step(challenge) or b""
        if gssapi.RequirementFlag.mutual_authentication not in context.actual_flags:
            raise LoginFailed("the broker did not prove its identity")
    offer = yield token
    with _login_errors(gssapi, "invalid GSSAPI response from the broker"):
        layers = context.unwrap(offer).message
    if len(layers) != _OFFER_BYTES:
        raise LoginFailed("invalid GSSAPI response from the broker")
    if not layers[0] & _NO_LAYER:
        raise LoginFailed(
            "the broker requires a GSSAPI security layer, which Kafka's protocol does not have"
        )
    # No layer, hence a maximum message size of 0, and no authorization identity.
    with _login_errors(gssapi, "cannot reply to the broker's GSSAPI response"):
        chosen_layer = context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message
    yield chosen_layer


@contextmanager
def _login_errors(gssapi: Any, what: str) -> Iterator[None]:
    """Turns the library's errors into LoginFailed, in one line with the remedy."""
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        raise LoginFailed(f"{what}: {_reason(gssapi, error)}") from None


def _reason(gssapi: Any, error: Any) -> str:
    code, is_major = (error.min_code, False) if error.min_code else (error.maj_code, True)
    text = plain_words("; ".join(error.get_all_statuses(code, is_major)))
    cure = _CURES.get(error.min_code - _ERRORS)
    if cure is None and isinstance(error, gssapi.exceptions.ExpiredCredentialsError):
        cure = Cure.ENDED
    if cure is None and isinstance(error, gssapi.exceptions.MissingCredentialsError):
        cure = Cure.NONE
    return f"{text} ({cure})" if cure else text


def _library() -> Any:
    try:
        import gssapi  # noqa: PLC0415 -- an optional dependency
    except ImportError as error:
        raise LoginFailed(
            "Kerberos needs the package gssapi: pip install gssapi, with gcc, "
            f"python3-dev and libkrb5-dev ({plain_words(str(error))})"
        ) from None
    return gssapi
