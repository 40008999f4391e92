"""What keeps an audit from serving, and what it answers instead of what was asked for.

AuditFailure                the program cannot serve: one line for the operator
Unanswerable                an answer that is an error: its status, and why, in words
├── BadQuery                400: a parameter that is not there, or cannot be meant
├── NotKnown                401: nobody knows who asks
├── NotAllowed              403: it is not for whoever asks, or not asked from our own page
├── Unknown                 404: nothing of that name
├── WrongName               421: asked for by a name that is not ours
├── TooOften                429: too many tries; says how long to wait
├── NotWritten              502: what an operator has said could not be written into the ledger
├── NotRead                 502: the brokers could not be asked for messages
└── NotNow                  503: too much is being asked, or nothing can be answered yet
AuditStoreError             the database cannot be used
├── StoreDamaged            it is not as it was written: discard it, build it anew from `_audit`
└── TooLargeToStore         what it was given cannot be kept, whatever its state
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
        super().__init__(f"too many tries: wait {seconds} s")
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
    """It can be thrown away, as all that is in it can be read from `_audit` again."""


class TooLargeToStore(AuditStoreError):
    """It was given something that is larger than any row can be, or of another kind."""
