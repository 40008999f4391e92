"""SaslAuthenticate (key 36): performs one step of a login; the last step returns the session's
lifetime."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class SaslAuthenticateRequest(Struct, frozen=True, kw_only=True, gc=False):
    auth_bytes: bytes


class SaslAuthenticateResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime: int = 0


API = Api(
    key=36,
    name="SaslAuthenticate",
    versions=range(3),
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
)
