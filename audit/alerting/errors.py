"""Failures to send an alert to a receiver.

NotTold       temporary: the receiver may take it later
└── Refused   because of its content: sending it again does not help
"""


class NotTold(Exception):
    """A notice could not be delivered. The message contains no URL, key or password. `answer` is
    the peer's response, which must not be logged."""

    def __init__(self, why: str, answer: str = "") -> None:
        super().__init__(why)
        self.answer = answer


class Refused(NotTold):
    pass
