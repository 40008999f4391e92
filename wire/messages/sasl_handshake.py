"""SaslHandshake (key 17): selects a login's mechanism; SaslAuthenticate follows.

Not supported: version 0, after which tokens are sent outside of Kafka's frames.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


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
