"""The audit's exceptions.

AuditFailure                the program cannot serve: one line for the operator
Unanswerable                an error as the answer to a request: its status, and why
├── BadQuery                400: an unknown or invalid parameter
├── NotKnown                401: authentication required
├── NotAllowed              403: the user lacks the right, or the request is not from our own page
├── Unknown                 404: nothing has that name
├── WrongName               421: the header `Host` has a name that is not ours
├── TooOften                429: too many attempts; tells how long to wait
├── NotWritten              502: an operator's statement could not be written into the ledger
├── NotRead                 502: the brokers could not be asked for messages
└── NotNow                  503: overload, or no answer is possible yet
AuditStoreError             the database cannot be used
├── StoreDamaged            the database is damaged: discard it, and rebuild it from `_audit`
├── WrongSignature          of entries that were folded before it was verified: read them again
└── TooLargeToStore         a value cannot be stored, whatever the state of the database
"""

from http import HTTPStatus


class AuditFailure(Exception):
    pass


class Unanswerable(Exception):
    status: HTTPStatus
    command: str = ""  # that helps


class BadQuery(Unanswerable):
    status = HTTPStatus.BAD_REQUEST


class NotKnown(Unanswerable):
    status = HTTPStatus.UNAUTHORIZED


class NotAllowed(Unanswerable):
    status = HTTPStatus.FORBIDDEN


class WrongName(Unanswerable):
    status = HTTPStatus.MISDIRECTED_REQUEST


class TooOften(Unanswerable):
    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many attempts: wait {seconds} s")
        self.seconds = seconds


class Unknown(Unanswerable):
    status = HTTPStatus.NOT_FOUND


class NotWritten(Unanswerable):
    status = HTTPStatus.BAD_GATEWAY


class NotRead(Unanswerable):
    status = HTTPStatus.BAD_GATEWAY


class NotNow(Unanswerable):
    status = HTTPStatus.SERVICE_UNAVAILABLE


class AuditStoreError(Exception):
    """The audit's database cannot be used."""


class StoreDamaged(AuditStoreError):
    """The database is damaged. Its whole content can be read again from `_audit`."""


class WrongSignature(AuditStoreError):
    """The signature of entries that were folded before it was verified is wrong. Nothing of their
    transaction was committed."""


class TooLargeToStore(AuditStoreError):
    """A value is too large for a row, or of the wrong type."""
