"""SaslHandshake (key 17): which mechanism a login is made by; what follows is SaslAuthenticate.

Version 0, after which tokens went without Kafka's frames, is not spoken.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


API = Api(
    key=17,
    name="SaslHandshake",
    versions=range(1, 2),
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
)
