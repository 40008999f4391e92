"""The current credentials of a login: a password, a token, or Kerberos tickets."""

from typing import Final

from client.connection.kerberos import Tickets
from client.connection.logins import Exchange, LoginFailed, exchange
from client.connection.security import Login, Mechanism
from client.connection.tokens import TokenEndpoint, named_by
from ground.logins.secrets import NoSecret
from ground.printable import plain_words
from ground.tls.client import ClientTls, Tls
from wire.acls import USER

_LONGEST_NAME: Final = 255


class Credentials:
    """The credentials of one configured login. Thread-safe."""

    def __init__(self, login: Login) -> None:
        self.login = login
        tls = ClientTls(Tls(ca=login.token_ca)) if login.token_ca else None
        self._endpoint = TokenEndpoint(login, tls) if login.token_url else None
        self._tickets = Tickets(login) if login.mechanism is Mechanism.GSSAPI else None
        self._named = ""  # the subject of the last token

    @property
    def who(self) -> str:
        """The user as named in ACLs, or a description if only a token or a ticket determines the
        user."""
        login = self.login
        if login.user or self._named:
            return f"{USER}{plain_words((login.user or self._named)[:_LONGEST_NAME])}"
        if login.mechanism is Mechanism.GSSAPI:
            return (
                f"the owner of the tickets of {login.principal or login.ccache or 'this process'}"
            )
        return f"the owner of the token of {login.token_url or login.secret}"

    def exchange(self, host: str) -> Exchange:
        """Starts the SASL exchange with the broker on this host. Raises LoginFailed."""
        if self._tickets is not None:
            return self._tickets.exchange(host)
        return exchange(self.login, self.secret())

    def secret(self) -> str:
        """Returns the password, or a token. Raises LoginFailed."""
        try:
            secret = self.login.secret.read() if self._endpoint is None else self._endpoint.token()
        except NoSecret as error:
            raise LoginFailed(str(error)) from None
        if self.login.mechanism is Mechanism.OAUTHBEARER:
            self._named = named_by(secret)
        return secret
