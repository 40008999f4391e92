"""AlterUserScramCredentials (key 51): sets and removes users' passwords, salted by the client."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ScramCredentialDeletion(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    mechanism: int  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512; other values are the peer's error


class ScramCredentialUpsertion(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        """Omits the secrets."""
        kind = type(self).__name__
        return (
            f"{kind}(name={self.name!r}, mechanism={self.mechanism}, iterations={self.iterations})"
        )


class AlterUserScramCredentialsRequest(Struct, frozen=True, kw_only=True, gc=False):
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(Struct, frozen=True, kw_only=True, gc=False):
    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class AlterUserScramCredentialsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=range(1),
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
)
