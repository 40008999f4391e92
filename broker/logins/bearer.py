"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token, signed by a trusted issuer.

client   n,,^Aauth=Bearer TOKEN^A^A broker   (nothing)                     if it is valid,
otherwise: {"status":"invalid_token"} client   ^A                            after that broker   the
refusal
"""

import re
from typing import Final

from broker.logins.exchange import LoginRefused, StepResult, refused, text_of
from broker.logins.tokens import BadToken, NoKeys, Tokens

MECHANISM: Final = "OAUTHBEARER"
_MOST_BYTES: Final = 32 * 1024
_FIRST: Final = re.compile(
    r"[ny],(?:a=(?P<authzid>[^,\x00\x01]+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\t\n\r\x20-\x7e]*\x01)*)\x01"
)
_TOKEN: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/=-]+)")
_REFUSAL: Final = b'{"status":"invalid_token"}'


class BearerExchange:
    """One login attempt, of one step."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def step(self, data: bytes) -> StepResult:
        message = _FIRST.fullmatch(text_of(MECHANISM, data, _MOST_BYTES))
        if message is None:
            raise refused(MECHANISM, "malformed OAUTHBEARER message")
        pairs = [pair.partition("=") for pair in message["pairs"].split("\1")]
        auth_values = [value for key, _, value in pairs if key == "auth"]
        token = _TOKEN.fullmatch(auth_values[0]) if len(auth_values) == 1 else None
        if token is None:
            raise refused(MECHANISM, "no token in the message")
        try:
            proven_token = await self._tokens.check(token[1])
        except BadToken as error:
            raise _refusal(str(error)) from None
        except NoKeys as error:
            raise _refusal(str(error), is_ours=True) from None
        if message["authzid"] not in {None, proven_token.principal}:
            raise refused(
                MECHANISM,
                "authorization id differs from the token's user",
                user=proven_token.principal,
            )
        return StepResult(b"", proven_token.principal, proven_token.ends_at)


def _refusal(why: str, *, is_ours: bool = False) -> LoginRefused:
    return refused(MECHANISM, why, last_word=_REFUSAL, is_ours=is_ours)
