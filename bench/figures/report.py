"""Results as a table for the terminal, a table for a page, and JSON."""

from collections.abc import Iterable, Iterator, Mapping

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.figures.measurement import Figure, Goal, Outcome, Summary
from bench.figures.profile import Case, Results
from bench.servers.brokers import PENSTOCK

Json = dict[str, object]


def _figures(outcomes: Iterable[Outcome]) -> list[Figure]:
    """Every figure in the samples, in their order."""
    return list(
        dict.fromkeys(
            figure for outcome in outcomes for metrics in outcome.samples for figure in metrics
        )
    )


def _cell(figure: Figure, outcome: Outcome) -> str:
    if outcome.failure is not None:
        return "skipped" if outcome.skipped else "failed"
    summary = outcome.summary(figure)
    if summary is None:
        return ""
    if summary.smallest == summary.largest:
        return figure.text(summary.median)
    spread = f"{figure.text(summary.smallest)}..{figure.text(summary.largest)}"
    return f"{figure.text(summary.median)} ({spread})"


def _medians(figure: Figure, case: Case, results: Results) -> dict[str, float]:
    summaries = {
        name: results.outcomes[case.name, name].summary(figure) for name in results.brokers
    }
    return {name: value.median for name, value in summaries.items() if isinstance(value, Summary)}


def _peers(results: Results) -> list[str]:
    return [name for name in results.brokers if name != PENSTOCK]


def _ratios(medians: Mapping[str, float], results: Results) -> list[str]:
    """Penstock's median divided by that of each peer."""
    ratios = []
    for name in _peers(results) or [""]:
        penstock_median = PENSTOCK in medians and medians.get(name)
        ratios.append(f"{medians[PENSTOCK] / medians[name]:.2f}" if penstock_median else "")
    return ratios


def _verdict(goal: Goal, medians: Mapping[str, float]) -> bool | None:
    """Whether the goal is met; `ahead` compares with the best peer."""
    if PENSTOCK not in medians:
        return None
    peers = [value for name, value in medians.items() if name != PENSTOCK]
    best_of = max if goal.figure.more_is_better else min
    return goal.met(medians[PENSTOCK], best_of(peers, default=None))


_WORDS = {True: "met", False: "NOT MET", None: "not judged"}


def _rows(case: Case, results: Results) -> Iterator[list[str]]:
    """A row for each figure: medians (smallest..largest), ratios of the medians, goal."""
    outcomes = {name: results.outcomes[case.name, name] for name in results.brokers}
    goals = {goal.figure: goal for goal in case.goals}
    for figure in _figures(outcomes.values()):
        medians = _medians(figure, case, results)
        goal = goals.get(figure)
        yield [
            figure.name,
            *(_cell(figure, outcome) for outcome in outcomes.values()),
            *_ratios(medians, results),
            "" if goal is None else f"{goal.text}: {_WORDS[_verdict(goal, medians)]}",
        ]
    for name, outcome in outcomes.items():
        if outcome.failure is not None:
            state = "skipped" if outcome.skipped else "failed"
            yield [f"{name} {state}", outcome.failure, *[""] * (len(_columns(results)) - 3)]


def _columns(results: Results) -> list[str]:
    """The titles; a single ratio needs no peer's name."""
    peers = _peers(results)
    ratios = [f"to {name}" for name in peers] if len(peers) > 1 else ["ratio"]
    return ["case", "figure", *results.brokers, *ratios, "goal"]


def table(results: Results) -> Table:
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in _columns(results):
        grid.add_column(column, no_wrap=True)
    for case in results.cases:
        for number, row in enumerate(_rows(case, results)):
            grid.add_row("" if number else case.name, *row)
        grid.add_section()
    return grid


def markdown(results: Results) -> str:
    """Formats the same table in Markdown."""
    columns = _columns(results)
    description = results.profile.about
    lines = [f"### {results.profile.name}", "", f"{description[0].upper()}{description[1:]}.", ""]
    lines += [_pipes(columns), _pipes(["---"] * len(columns))]
    for case in results.cases:
        for number, row in enumerate(_rows(case, results)):
            lines.append(_pipes(["" if number else case.name, *row]))
    return "\n".join([*lines, ""])


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def verdicts(results: Iterable[Results]) -> list[bool | None]:
    """Returns the verdict on every goal of every case."""
    return [
        _verdict(goal, _medians(goal.figure, case, result))
        for result in results
        for case in result.cases
        for goal in case.goals
    ]


def failures(results: Iterable[Results]) -> int:
    """Counts the failures; skipped cases are not failures."""
    outcomes = [outcome for result in results for outcome in result.outcomes.values()]
    return sum(outcome.failure is not None and not outcome.skipped for outcome in outcomes)


def as_json(results: Results) -> Json:
    """Returns every sample of every round."""
    cases: Json = {}
    for case in results.cases:
        outcomes = {name: results.outcomes[case.name, name] for name in results.brokers}
        cases[case.name] = {
            name: {
                "failure": outcome.failure,
                "samples": [
                    {figure.name: value for figure, value in sample.items()}
                    for sample in outcome.samples
                ],
            }
            for name, outcome in outcomes.items()
        }
    return {"about": results.profile.about, "cases": cases}
