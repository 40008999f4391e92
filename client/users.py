"""What is done to users: list, set a password, remove. The password itself is never sent.

What is sent is what SCRAM makes of it, which is enough to log in with: TLS keeps it from others.

Apache Kafka takes one change of a user in a request, so each mechanism has its own. Who is stopped
in between has done a part of it, and does it again.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from client.brokers import Brokers
from client.errors import ErrorCode, check
from client.rights import on_cluster
from ground.scram import ScramMechanism, new_salt, of_code
from wire.acls import Operation
from wire.messages import alter_user_scram_credentials, describe_user_scram_credentials
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

_NOT_THERE: Final = ErrorCode.resource_not_found


class UserPasswords(msgspec.Struct, frozen=True):
    """For which mechanisms somebody has a password, with the iterations of its hash."""

    name: str
    iterations: Mapping[ScramMechanism, int]


def users(brokers: Brokers, name: str | None = None) -> tuple[UserPasswords, ...]:
    """Everybody, or one; nobody if there is no such user."""
    asked = None if name is None else (UserName(name=name),)
    request = DescribeUserScramCredentialsRequest(users=asked)
    answer = brokers.call_any(describe_user_scram_credentials.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(answer.error_code, "users", answer.error_message, needs=needs)
    found = []
    for each in answer.results:
        if each.error_code is _NOT_THERE and name is not None:
            continue
        check(each.error_code, f"user {each.user}", each.error_message, needs=needs)
        iterations = {
            mechanism: info.iterations
            for info in each.credential_infos
            if (mechanism := of_code(info.mechanism)) is not None
        }
        found.append(UserPasswords(each.user, iterations))
    return tuple(sorted(found, key=lambda user: user.name))


def set_password(brokers: Brokers, name: str, password: str, iterations: int) -> None:
    """For every mechanism, whether or not there is such a user."""
    for mechanism in ScramMechanism:
        salt = new_salt()
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism.code,
            iterations=iterations,
            salt=salt,
            salted_password=mechanism.salted(password, salt, iterations),
        )
        _alter(brokers, AlterUserScramCredentialsRequest(upsertions=(upsertion,)))


def remove_user(brokers: Brokers, user: UserPasswords) -> None:
    """Removes the passwords that somebody has."""
    for mechanism in user.iterations:
        deletion = ScramCredentialDeletion(name=user.name, mechanism=mechanism.code)
        _alter(brokers, AlterUserScramCredentialsRequest(deletions=(deletion,)))


def _alter(brokers: Brokers, request: AlterUserScramCredentialsRequest) -> None:
    answer = brokers.call_controller(alter_user_scram_credentials.API, request)
    needs = on_cluster(brokers.who, Operation.ALTER)
    for each in answer.results:
        check(each.error_code, f"user {each.user}", each.error_message, needs=needs)
