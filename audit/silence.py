"""Why an agent is silent, as far as the audit knows, and what to do about it. Pure.

To restart an agent helps only if it has stopped. Two causes are known that a restart does not mend:

    replaced   another agent of the same host and data directory began after its last entry: the
               directory was emptied, and the old id, which is never heard again, is retired
    refused    a broker refuses logins again and again: those of a user that is called like the
               host, or that began about when the agent was last heard, which may be its own
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from audit.api.answers import AgentRow
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands
from audit.programs import Program, ProgramKind, moment
from ground.printable import one_line
from ledger.health import ProblemKind

_BEFORE: Final = 60_000  # milliseconds: until the last entry of before has come
_AFTER: Final = 300_000  # connections stay until they have to log in again


class RefusedLogins(NamedTuple):
    """Logins of one user from one address that brokers refuse, since a time in milliseconds."""

    cluster: str
    user: str
    address: str
    why: str
    since: int
    brokers: tuple[str, ...]

    @property
    def words(self) -> str:
        subject = f"logins of {self.user}" if self.user else "logins"
        brokers = f"broker{'s' if len(self.brokers) > 1 else ''} {' and '.join(self.brokers)}"
        return one_line(
            f"{subject} from {self.address} are refused at {brokers} ({self.why}), since "
            f"{moment(self.since // 1000 * 1000)}"
        )


class Silence(NamedTuple):
    """The cause, empty if it is unknown, and the cure."""

    words: str
    cure: Cure


def refused_logins(programs: Iterable[Program]) -> list[RefusedLogins]:
    """Returns the logins that brokers refuse, by their reports."""
    refused: dict[tuple[str, str, str], RefusedLogins] = {}
    for program in programs:
        for problem in program.health.problems if program.kind is ProgramKind.BROKER else ():
            if problem.kind is not ProblemKind.LOGINS:
                continue
            user, _, address = f" {problem.subject}".rpartition(" from ")
            key = program.cluster, problem.subject, problem.text
            known = refused.get(key)
            refused[key] = RefusedLogins(
                program.cluster,
                user.strip(),
                address,
                problem.text,
                min(problem.since, known.since) if known else problem.since,
                (*(known.brokers if known else ()), program.name),
            )
    return list(refused.values())


def silence(
    row: AgentRow, commands: ProgramCommands, refused: Sequence[RefusedLogins] = ()
) -> Silence:
    """Returns the cause and the cure of the silence of an agent, or of a host never heard."""
    if row.replaced_by:
        words = f"agent {row.replaced_by} has replaced it: its data directory was emptied"
        reason = f"replaced by {row.replaced_by}"
        cure = commands.retire_agent(row.cluster, row.host, row.agent, reason=reason)
        return Silence(words, cure)
    if words := _refusal(row, refused):
        return Silence(words, commands.look("penstock", "agent", "--status", host=row.host))
    return Silence("", commands.restart("agent", host=row.host))


def _refusal(row: AgentRow, refused: Sequence[RefusedLogins]) -> str:
    of_cluster = [logins for logins in refused if row.cluster in {"", logins.cluster}]
    for logins in of_cluster:
        if logins.user in {row.host, row.host.partition(".")[0]}:
            return logins.words
    for logins in of_cluster:
        if row.heard > 0 and -_BEFORE <= logins.since - row.heard <= _AFTER:
            return f"{logins.words}, which may be its own"
    return ""
