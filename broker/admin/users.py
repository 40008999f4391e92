"""Reads and changes users and their SCRAM credentials on behalf of clients.

Changes are written to ZooKeeper, one transaction for each user, in worker threads; a client is
answered when this broker has applied them. Other brokers do within a second. A rejection is an
`ApiError` with Kafka's code and words.

Existing logins stay valid: a change affects only the next one.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from broker.errors import ApiError, ErrorCode
from cluster.errors import ClusterError, InvalidUserName, TooManyUsers, Unavailable, UnknownUser
from cluster.layout.names import check_user_name
from cluster.records import users
from cluster.records.users import Credentials, Users, UsersView
from cluster.session.session import Session
from ground.logins.scram import ScramCredential, ScramMechanism

_NO_SUCH: Final = "Attempt to delete a user credential that does not exist"

Changes = Mapping[ScramMechanism, ScramCredential | None]  # None: remove it

log = logging.getLogger(__name__)


class UserAdmin:
    def __init__(self, session: Session, view: UsersView) -> None:
        self._session = session
        self._view = view

    @property
    def users(self) -> Users:
        return self._view.users

    async def alter(self, changes: Mapping[str, Changes]) -> dict[str, ApiError | None]:
        """Applies all changes of a user, or none; returns the error for each user, None for
        success."""
        return await asyncio.to_thread(self._alter, changes)

    def _alter(self, changes: Mapping[str, Changes]) -> dict[str, ApiError | None]:
        outcome: dict[str, ApiError | None] = {}
        for name, user_changes in changes.items():
            outcome[name] = None
            try:
                users.alter(self._session, name, partial(_merged, user_changes))
            except ClusterError as error:
                outcome[name] = _api_error(error)
            else:
                log.info(
                    "passwords altered user=%r mechanisms=%s", name, ",".join(sorted(user_changes))
                )
        try:
            self._view.refresh()
        except Unavailable as error:
            log.warning("cannot read back altered passwords yet error=%r", str(error))
        return outcome


def check_name(name: str) -> None:
    """Checks a user's name. Raises ApiError."""
    try:
        check_user_name(name)
    except InvalidUserName as error:
        raise ApiError(ErrorCode.unacceptable_credential, str(error)) from None


def _merged(changes: Changes, before: Credentials) -> Credentials:
    if any(
        credential is None and mechanism not in before for mechanism, credential in changes.items()
    ):
        raise UnknownUser(_NO_SUCH)
    credentials = {**before, **changes}
    return {
        mechanism: credential
        for mechanism, credential in credentials.items()
        if credential is not None
    }


def _api_error(error: ClusterError) -> ApiError:
    code = ErrorCode.unknown_server_error
    match error:
        case UnknownUser():
            code = ErrorCode.resource_not_found
        case TooManyUsers():
            code = ErrorCode.policy_violation
        case Unavailable():
            code = ErrorCode.request_timed_out
    return ApiError(code, str(error))
