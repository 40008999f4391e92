"""What can go wrong in an agent, in one tree.

    AgentError
    ├── InputError          an input cannot be followed as it is configured: names it and says why
    ├── JournalError        the journal cannot be opened, or not be believed
    └── JournalFull         nothing can be written down now: the disk is full; tried again later

Everything else that goes wrong with a line is a dead letter, with a file a `Happening`, with a
broker an error of `client.errors`.
"""


class AgentError(Exception):
    """Says in one line what is wrong and what to do."""


class InputError(AgentError):
    pass


class JournalError(AgentError):
    pass


class JournalFull(AgentError):
    pass
