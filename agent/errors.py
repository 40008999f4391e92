"""The errors of an agent.

    AgentError
    ├── InputError          an input cannot be followed as configured: its name and the reason
    ├── NoSchema            a topic has no schema to write its events with
    ├── ConfigRejected      a new configuration was rejected: the agent keeps the current one
    ├── JournalError        the journal cannot be opened, or is corrupt
    ├── JournalFull         the journal cannot be written, since the disk is full; tried again later
    └── JournalctlError     systemd's journal cannot be read; tried again later

A fault in a line makes a dead letter, one in a file a `Happening`, and one at a broker raises an
error of `client.errors`.
"""


class AgentError(Exception):
    """A one-line message: what is wrong and what to do."""


class InputError(AgentError):
    pass


class NoSchema(AgentError):
    pass


class ConfigRejected(AgentError):
    pass


class JournalError(AgentError):
    pass


class JournalFull(AgentError):
    pass


class JournalctlError(AgentError):
    pass


class NoJournalFiles(JournalctlError):
    def __init__(self) -> None:
        super().__init__("there are no journal files")
