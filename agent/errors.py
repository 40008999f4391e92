"""What can go wrong in an agent, in one tree.

    AgentError
    ├── InputError          an input cannot be followed as it is configured: names it and says why
    ├── NoSchema            a topic has no schema that its events could be written with
    ├── NotTaken            a new configuration is not taken: the agent goes on with the one it has
    ├── JournalError        the journal cannot be opened, or not be believed
    └── JournalFull         nothing can be written down now: the disk is full; tried again later

Everything else that goes wrong with a line is a dead letter, with a file a `Happening`, with a
broker an error of `client.errors`.
"""


class AgentError(Exception):
    """Says in one line what is wrong and what to do."""


class InputError(AgentError):
    pass


class NoSchema(AgentError):
    pass


class NotTaken(AgentError):
    pass


class JournalError(AgentError):
    pass


class JournalFull(AgentError):
    pass
