"""What keeps an audit from serving, and what it answers instead of what was asked for.

AuditFailure                the program cannot serve: one line for the operator
Unanswerable                an answer that is an error: its status, and why, in words
├── BadQuery                400: a parameter that is not there, or cannot be meant
├── Unknown                 404: nothing of that name
└── NotNow                  503: too much is being asked, or nothing can be answered yet
"""

from http import HTTPStatus


class AuditFailure(Exception):
    pass


class Unanswerable(Exception):
    status: HTTPStatus


class BadQuery(Unanswerable):
    status = HTTPStatus.BAD_REQUEST


class Unknown(Unanswerable):
    status = HTTPStatus.NOT_FOUND


class NotNow(Unanswerable):
    status = HTTPStatus.SERVICE_UNAVAILABLE
