"""The logins of one broker, and one client's attempt. The package's docstring has the rules."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from broker.logins.bearer import BearerExchange
from broker.logins.exchange import MOST_BYTES, Exchange, LoginRefused, refused
from broker.logins.failures import Failures
from broker.logins.known_users import KnownUsers
from broker.logins.password_checks import PasswordChecks
from broker.logins.plain import PlainExchange
from broker.logins.refusals import RefusedLogins
from broker.logins.scram import ScramExchange
from broker.logins.signing_keys import KeysFile, KeysUrl, SigningKeys
from broker.logins.tokens import TokenRules, Tokens
from client.connection.security import Mechanism
from cluster.records.users import Users
from ground.logins.scram import ScramMechanism

_BY_TOKEN: Final = frozenset({Mechanism.OAUTHBEARER})


class Login:
    """One login attempt on one connection; each further attempt gets a new object."""

    def __init__(
        self,
        mechanism: str,
        exchange: Exchange,
        host: str,
        *,
        failures: Failures,
        refused_logins: RefusedLogins,
    ) -> None:
        self.done = False
        self.principal = ""
        self.ends_at: float | None = None
        self._mechanism = mechanism
        self._exchange = exchange
        self._host = host
        self._failures = failures
        self._refused_logins = refused_logins
        self._is_busy = False
        self._refusal: LoginRefused | None = None

    async def step(self, data: bytes) -> bytes:
        """Returns the answer to the client. Raises LoginRefused once the client may be told: a
        refusal is delayed, and ends the attempt."""
        if self._refusal is not None:
            raise self._refusal
        if self.done or self._is_busy:
            raise self._over(refused(self._mechanism, "message after the end of the login"))
        if len(data) > MOST_BYTES:
            raise self._over(
                refused(
                    self._mechanism,
                    f"message of {len(data)} bytes, at most {MOST_BYTES} are allowed",
                )
            )
        if self._failures.is_swamped(self._host):
            reason = "rejected unseen: too many failed logins from this address"
            raise self._over(refused(self._mechanism, reason, is_ours=True))
        self._is_busy = True
        try:
            answer = await self._exchange.step(data)
        except LoginRefused as refusal:
            self._over(refusal)
            if not refusal.is_ours:
                self._refused_logins.add(refusal.user, self._host, refusal.why)
                await self._failures.hold(self._host, refusal.user)
            if refusal.last_word:
                return refusal.last_word
            raise
        finally:
            self._is_busy = False
        if self._refusal is not None:  # it sent more meanwhile
            raise self._refusal
        if answer.principal:
            self.principal, self.ends_at, self.done = answer.principal, answer.ends_at, True
            self._refused_logins.admitted(answer.principal, self._host)
        return answer.answer

    def _over(self, refusal: LoginRefused) -> LoginRefused:
        self.done = False
        self._refusal = refusal
        return refusal


class Logins:
    """Everything that a broker needs to authenticate clients. Belongs to the event loop."""

    def __init__(
        self,
        mechanisms: Collection[Mechanism],
        *,
        users: Callable[[], Users],
        decoy_key: bytes,
        tokens: TokenRules | None = None,
    ) -> None:
        """`users` returns the current users (`UsersView.users`), `decoy_key` is
        `cluster.records.users.login_key`. OAUTHBEARER needs `tokens`."""
        loop = asyncio.get_running_loop()
        self.mechanisms: frozenset[str] = frozenset(
            str(mechanism)
            for mechanism in mechanisms
            if tokens is not None or mechanism not in _BY_TOKEN
        )
        self._failures = Failures(loop.time)
        self.refused = RefusedLogins()
        self._users = KnownUsers(users, decoy_key)
        self._passwords = PasswordChecks(self._failures.pause, loop)
        self._tokens = None if tokens is None else Tokens(tokens, _keys(tokens, loop.time))

    def begin(self, mechanism: str, host: str) -> Login:
        """Begins an attempt by one of `mechanisms`, from an address without its port."""
        return Login(
            mechanism,
            self._exchange(mechanism, host),
            host,
            failures=self._failures,
            refused_logins=self.refused,
        )

    def close(self) -> None:
        self._passwords.close()

    def _exchange(self, mechanism: str, host: str) -> Exchange:
        if mechanism not in self.mechanisms:
            raise ValueError(f"{mechanism} is not enabled")
        if mechanism == Mechanism.PLAIN:
            return PlainExchange(self._users, self._passwords, host)
        if mechanism == Mechanism.OAUTHBEARER and self._tokens is not None:
            return BearerExchange(self._tokens)
        return ScramExchange(ScramMechanism(mechanism), self._users)


def _keys(rules: TokenRules, clock: Callable[[], float]) -> SigningKeys:
    if rules.keys_file:
        return SigningKeys(KeysFile(Path(rules.keys_file)), clock)
    return SigningKeys(KeysUrl(rules.keys_url, rules.keys_ca), clock)
