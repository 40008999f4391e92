"""Administers users: list, set a password, remove. Passwords are never sent in the clear.

What is sent is SCRAM's salted password, which suffices to log in: use TLS to protect it.

Apache Kafka accepts one change of a user in a request, so each mechanism takes its own. After an
interruption, repeat the command.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.errors import ErrorCode, check
from client.rights import on_cluster
from ground.logins.scram import ScramMechanism, new_salt, of_code
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
    """The mechanisms for which a user has a password, with the iterations of the hash."""

    name: str
    iterations: Mapping[ScramMechanism, int]


def users(brokers: Brokers, name: str | None = None) -> tuple[UserPasswords, ...]:
    """Returns all users, or the one of this name, if it exists."""
    requested_users = None if name is None else (UserName(name=name),)
    request = DescribeUserScramCredentialsRequest(users=requested_users)
    response = brokers.call_any(describe_user_scram_credentials.API, request)
    needs = on_cluster(brokers.who, Operation.DESCRIBE)
    check(response.error_code, "users", response.error_message, needs=needs)
    user_list = []
    for result in response.results:
        if result.error_code is _NOT_THERE and name is not None:
            continue
        check(result.error_code, f"user {result.user}", result.error_message, needs=needs)
        iterations = {
            mechanism: info.iterations
            for info in result.credential_infos
            if (mechanism := of_code(info.mechanism)) is not None
        }
        user_list.append(UserPasswords(result.user, iterations))
    return tuple(sorted(user_list, key=lambda user: user.name))


def set_password(brokers: Brokers, name: str, password: str, iterations: int) -> None:
    """Sets the password for every mechanism, and creates the user if necessary."""
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
    """Removes all passwords of the user."""
    for mechanism in user.iterations:
        deletion = ScramCredentialDeletion(name=user.name, mechanism=mechanism.code)
        _alter(brokers, AlterUserScramCredentialsRequest(deletions=(deletion,)))


def _alter(brokers: Brokers, request: AlterUserScramCredentialsRequest) -> None:
    response = brokers.call_controller(alter_user_scram_credentials.API, request)
    needs = on_cluster(brokers.who, Operation.ALTER)
    for result in response.results:
        check(result.error_code, f"user {result.user}", result.error_message, needs=needs)
