"""SaslHandshake (key 17): which mechanism a login is made by; what follows is SaslAuthenticate.

Version 0, after which tokens went without Kafka's frames, is not spoken.
"""

from msgspec import Struct

from wire.codec import Api
from wire.errors import ErrorCode


class SaslHandshakeRequest(Struct, frozen=True, kw_only=True, gc=False):
    mechanism: str


class SaslHandshakeResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    mechanisms: tuple[str, ...] = ()


API = Api(
    key=17,
    name="SaslHandshake",
    versions=range(1, 2),
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
)
