"""DescribeUserScramCredentials (key 50): returns the users' SCRAM mechanisms."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class UserName(Struct, frozen=True, kw_only=True, gc=False):
    name: str


class DescribeUserScramCredentialsRequest(Struct, frozen=True, kw_only=True, gc=False):
    users: tuple[UserName, ...] | None  # None or empty: all


class CredentialInfo(Struct, frozen=True, kw_only=True, gc=False):
    mechanism: int  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: int


class DescribeUserScramCredentialsResult(Struct, frozen=True, kw_only=True, gc=False):
    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Struct, frozen=True, kw_only=True, gc=False):
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
