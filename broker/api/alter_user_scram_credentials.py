"""AlterUserScramCredentials (key 51), version 0.

Sets and removes passwords, which the client has salted. A request's changes to one user are all
made or all rejected, independently of other users. Any broker serves it.

Not here: users without passwords: a user whose last password is removed no longer exists. Requests
about more than `MOST_USERS` users are rejected as a whole.
"""

from collections import Counter
from typing import Final

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.admin.users import UserAdmin, check_name
from broker.connections.caller import Caller
from broker.errors import ApiError, ErrorCode
from ground.logins.scram import ScramCredential, ScramMechanism, check_iterations, of_code
from wire.acls import Operation
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MOST_USERS: Final = 500
_LONGEST_SALT: Final = 1_024
_LONGEST_PASSWORD: Final = 1_024  # a salted hash: of any length in Kafka, none is longer than this

_Altered = ScramCredentialDeletion | ScramCredentialUpsertion


class Needs(msgspec.Struct, frozen=True):
    users: UserAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: AlterUserScramCredentialsRequest, caller: Caller
) -> AlterUserScramCredentialsResponse:
    names = tuple(dict.fromkeys(alteration.name for alteration in _altered(request)))
    outcome: dict[str, ApiError | None]
    denial = _denial(needs.authorization.of(caller))
    if denial is not None:
        outcome = dict.fromkeys(names, denial)
    elif len(names) > MOST_USERS:
        reason = f"{len(names)} users in one request, at most {MOST_USERS} are allowed"
        outcome = dict.fromkeys(names, ApiError(ErrorCode.invalid_request, reason))
    else:
        error = _refused(request)
        changes: dict[str, dict[ScramMechanism, ScramCredential | None]] = {}
        for deletion in request.deletions:
            if deletion.name not in error:
                changes.setdefault(deletion.name, {})[_mechanism(deletion.mechanism)] = None
        for upsertion in request.upsertions:
            if upsertion.name not in error:
                credential = _credential(upsertion)
                changes.setdefault(upsertion.name, {})[credential.mechanism] = credential
        outcome = {**error, **await needs.users.alter(changes)}
    return AlterUserScramCredentialsResponse(
        results=tuple(_result(name, outcome[name]) for name in names)
    )


def _denial(rights: Rights) -> ApiError | None:
    try:
        rights.check_cluster(Operation.ALTER)
    except ApiError as error:
        return error
    return None


def _refused(request: AlterUserScramCredentialsRequest) -> dict[str, ApiError]:
    """The users whose changes are rejected, with the reason."""
    errors: dict[str, ApiError] = {}
    alterations = _altered(request)
    alteration_counts = Counter(
        (alteration.name, alteration.mechanism) for alteration in alterations
    )
    for alteration in alterations:
        try:
            check_name(alteration.name)
            _mechanism(alteration.mechanism)
            if isinstance(alteration, ScramCredentialUpsertion):
                _check(alteration)
            if alteration_counts[alteration.name, alteration.mechanism] > 1:
                raise ApiError(
                    ErrorCode.duplicate_resource,
                    "A user credential cannot be altered twice in the same request",
                )
        except ApiError as error:
            errors.setdefault(alteration.name, error)
    return errors


def _altered(request: AlterUserScramCredentialsRequest) -> tuple[_Altered, ...]:
    return (*request.deletions, *request.upsertions)


def _mechanism(code: int) -> ScramMechanism:
    mechanism = of_code(code)
    if mechanism is None:
        raise ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    return mechanism


def _check(upsertion: ScramCredentialUpsertion) -> None:
    try:
        check_iterations(upsertion.iterations)
    except ValueError as error:
        raise ApiError(ErrorCode.unacceptable_credential, str(error)) from None
    if not 0 < len(upsertion.salt) <= _LONGEST_SALT:
        reason = f"the salt has {len(upsertion.salt)} bytes; 1 to {_LONGEST_SALT} are allowed"
        raise ApiError(ErrorCode.unacceptable_credential, reason)
    if not 0 < len(upsertion.salted_password) <= _LONGEST_PASSWORD:
        size = len(upsertion.salted_password)
        reason = f"the salted password has {size} bytes; 1 to {_LONGEST_PASSWORD} are allowed"
        raise ApiError(ErrorCode.unacceptable_credential, reason)


def _credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    return ScramCredential.of_salted(
        _mechanism(upsertion.mechanism),
        upsertion.salted_password,
        upsertion.salt,
        upsertion.iterations,
    )


def _result(name: str, error: ApiError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name)
    return AlterUserScramCredentialsResult(
        user=name, error_code=error.code, error_message=error.message
    )
