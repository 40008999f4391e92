"""The problems that keep an agent from reading or shipping lines, for its health statements in the
ledger.

Only those that an operator must solve. An absent leader and a registry that does not answer have
alerts of their own, and are temporary.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from agent.configuration.inputs import Input
from agent.configuration.refusals import Refusal
from agent.monitoring.status_report import AgentParts, unmatched_words, unreadable_paths
from ground.printable import one_line
from ledger.health import Problem, ProblemKind
from ledger.names import DEAD_SUFFIX

_Subject = tuple[ProblemKind, str]


def problems_of(
    refusals: Sequence[Refusal], inputs: Sequence[Input], parts: AgentParts, inputs_dir: str = ""
) -> Iterator[Problem]:
    """The current problems: those of rejected files, or of all of `inputs_dir`, and then those of
    each input."""
    for refusal in refusals:
        is_folder = refusal.path == one_line(str(Path(inputs_dir)))
        kind = ProblemKind.UNREADABLE if is_folder else ProblemKind.REJECTED
        yield Problem(kind, refusal.path, refusal.why)
    reasons = parts.shipper.standing()
    for input_ in inputs:
        topics = (input_.topic, input_.topic + DEAD_SUFFIX)
        topic_problems = [
            f"topic {topic}: {reasons[topic]}" for topic in topics if topic in reasons
        ]
        feed = parts.pipeline.feeds.get(input_.label)
        if feed is not None and feed.reader is None:
            schemas = parts.schemas
            reason = schemas.missing(input_)
            topic_problems.insert(0, schemas.problem(input_) if reason else feed.stopped)
        if text := "; ".join(filter(None, topic_problems)):
            yield Problem(ProblemKind.STOPPED, input_.label, text)
        if words := unmatched_words(input_, parts):
            yield Problem(ProblemKind.UNMATCHED, input_.label, words)
        if unreadable := unreadable_paths(input_, parts):
            first, *other_paths = unreadable
            more_paths = (
                f"; and {len(other_paths):,} more of input {input_.label}" if other_paths else ""
            )
            yield Problem(ProblemKind.UNREADABLE, first.path, f"{first.why}{more_paths}")


class LastingProblems:
    """Keeps brief problems from being reported: a problem begins, and ends, only with the second
    look in a row that shows it. So a file whose mode is about to be set is no problem, and a topic
    that is being retried has not recovered. Belongs to one thread."""

    def __init__(self) -> None:
        self._lasting: dict[_Subject, Problem] = {}
        self._seen: dict[_Subject, Problem] = {}  # at the last look

    def look(self, problems: Iterable[Problem], now_millis: int) -> tuple[Problem, ...]:
        """Takes the problems of one look, and returns those that last."""
        lasting, previous, current = (
            self._lasting,
            self._seen,
            dict[_Subject, Problem](),
        )
        for problem in problems:
            subject = problem.kind, problem.subject
            problem_before = previous.get(subject) or lasting.get(subject)
            current[subject] = replace(
                problem, since=problem_before.since if problem_before else now_millis
            )
        self._seen = current
        self._lasting = {
            subject: problem
            for subject, problem in {**previous, **current}.items()
            if (subject in current) + (subject in previous) + (subject in lasting) > 1
        }
        return tuple(self._lasting.values())
