"""DescribeUserScramCredentials (key 50), version 0.

Users and the mechanisms that they have passwords for, with their iterations, but nothing of the
passwords themselves. Without names: all users, sorted by name. Changes made through another broker
show within a second.

Not here: users whose node cannot be read; they cannot log in either.
"""

from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.admin.users import UserAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError, ErrorCode
from cluster.records.users import Credentials, Users
from wire.acls import Operation
from wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


class Needs(msgspec.Struct, frozen=True):
    users: UserAdmin
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeUserScramCredentialsRequest, caller: Caller
) -> DescribeUserScramCredentialsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.DESCRIBE)
    except ApiError as error:
        return DescribeUserScramCredentialsResponse(
            error_code=error.code, error_message=error.message, results=()
        )
    users = needs.users.users
    if not request.users:
        results = tuple(_described(name, users[name]) for name in sorted(users))
    else:
        name_counts = Counter(user.name for user in request.users)
        results = tuple(_requested(name, name_counts[name], users) for name in name_counts)
    return DescribeUserScramCredentialsResponse(results=results)


def _requested(name: str, times: int, known: Users) -> DescribeUserScramCredentialsResult:
    if not name:
        return _refused(name, ErrorCode.resource_not_found, "Username must not be empty")
    if times > 1:
        return _refused(
            name,
            ErrorCode.duplicate_resource,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{name}",
        )
    if name not in known:
        return _refused(
            name,
            ErrorCode.resource_not_found,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    return _described(name, known[name])


def _refused(name: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)


def _described(name: str, credentials: Credentials) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        credential_infos=tuple(
            CredentialInfo(mechanism=mechanism.code, iterations=credential.iterations)
            for mechanism, credential in credentials.items()
        ),
    )
