"""DescribeUserScramCredentials (key 50): which users have passwords, for which mechanisms."""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class UserName:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None  # None or empty: all


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInfo:
    mechanism: int  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


API = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=range(1),
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
)
