"""AlterUserScramCredentials (key 51): set and remove passwords of users, salted by the client."""

from dataclasses import dataclass, field

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialDeletion:
    name: str
    mechanism: int  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512; anything else is the peer's mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    throttle_time: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


API = Api(
    key=51,
    name="AlterUserScramCredentials",
    versions=range(1),
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
)
