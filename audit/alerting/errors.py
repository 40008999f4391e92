"""Why a receiver did not take an alert.

NotTold       it may take it later
└── Refused   for what is in it: sending it again does not help
"""


class NotTold(Exception):
    """The reason, without URL, key or password. What the peer said is in `answer`, and not for a
    log."""

    def __init__(self, why: str, answer: str = "") -> None:
        super().__init__(why)
        self.answer = answer


class Refused(NotTold):
    pass
