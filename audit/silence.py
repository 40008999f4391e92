"""Why an agent is silent, as far as the audit knows, and what to do about it. Pure.

To restart an agent helps only if it has stopped. Another agent of the same host and data directory
that began after this one's last entry has replaced it: the directory was emptied, and the old id is
never heard again, so it is retired.
"""

from typing import NamedTuple

from audit.api.answers import AgentRow
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands


class Silence(NamedTuple):
    """The cause, empty if it is unknown, and the cure."""

    words: str
    cure: Cure


def silence(row: AgentRow, commands: ProgramCommands) -> Silence:
    """Returns the cause and the cure of the silence of an agent, or of a host never heard."""
    if row.replaced_by:
        words = f"agent {row.replaced_by} has replaced it: its data directory was emptied"
        reason = f"replaced by {row.replaced_by}"
        cure = commands.retire_agent(row.cluster, row.host, row.agent, reason=reason)
        return Silence(words, cure)
    return Silence("", commands.restart("agent", host=row.host))
