"""Prints a comparison of counts, of two commits or with the accepted ones."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bench.counted import accepted_counts
from bench.counted.callgrind import counted, why_no_counts
from bench.counted.commits import NoSuchCommit, checked_out
from bench.counted.paths import PATHS, CountedPath
from bench.figures import results

_HERE = "the working tree"


def count_all(root: Path, paths: Sequence[CountedPath]) -> dict[str, int]:
    """Counts the paths; prints the reason for each path that has no count."""
    result = counted(paths, root)
    for name, reason in result.why_not.items():
        print(f"{name} cannot be counted in {root}: {reason}", file=sys.stderr)
    return result.counts


def compare(commits: Sequence[str], only: Sequence[str], json_file: Path | None) -> None:
    """Compares two commits, or one and the working tree; the largest growth first."""
    if not 1 <= len(commits) <= 2:
        raise click.UsageError("--compare takes one commit, or two")
    _needs_valgrind()
    names = [commits[0], commits[1] if len(commits) == 2 else None]
    circumstances = results.circumstances(Path.cwd(), {})
    sides = []
    for name in names:
        try:
            with checked_out(name) as root:
                print(f"counting {name or _HERE}", file=sys.stderr)
                sides.append(count_all(root, _selected(only)))
        except NoSuchCommit as error:
            raise click.ClickException(f"{name}: {error}") from None
    _print(*sides)
    labels = [name or _HERE for name in names]
    counts = dict(zip(labels, sides, strict=True))
    print(f"written to {results.write(circumstances, json_file, counts=counts)}")


def show(only: Sequence[str], json_file: Path | None, *, accept: bool) -> None:
    """Prints the working tree's counts beside the accepted ones, or accepts them."""
    _needs_valgrind()
    circumstances = results.circumstances(Path.cwd(), {})
    with checked_out(None) as root:
        counts = count_all(root, _selected(only))
    accepted = accepted_counts.accepted()
    old_counts = {name: accepted[name] for name in counts if name in accepted}
    if accept:
        if set(PATHS) - set(accepted) - set(counts):
            raise click.ClickException("not every path has a count; run without --case")
        accepted_counts.accept({name: {**accepted, **counts}[name] for name in PATHS})
    elif (failure_reason := accepted_counts.why_not_comparable()) is not None:
        print(failure_reason)
    _print(old_counts or counts, counts)
    print(f"written to {results.write(circumstances, json_file, counts={_HERE: counts})}")


def _needs_valgrind() -> None:
    if (failure_reason := why_no_counts()) is not None:
        raise click.ClickException(failure_reason)


def _selected(only: Sequence[str]) -> list[CountedPath]:
    return [path for path in PATHS.values() if not only or any(word in path.name for word in only)]


def _print(old_counts: accepted_counts.Counts, new_counts: accepted_counts.Counts) -> None:
    names = [name for name in PATHS if name in old_counts and name in new_counts]
    names.sort(key=lambda name: -accepted_counts.change(old_counts[name], new_counts[name]))
    for name in names:
        growth = accepted_counts.change(old_counts[name], new_counts[name])
        word = "slower" if growth > accepted_counts.TOLERANCE else ""
        if growth < -accepted_counts.TOLERANCE:
            word = "faster"
        unit = f"instructions a {PATHS[name].unit}"
        print(
            f"{name:13} {old_counts[name]:>12,} → {new_counts[name]:>12,} {unit:26} "
            f"{growth:+7.1%} {word}"
        )
    for name in PATHS:
        if (name in old_counts) != (name in new_counts):
            print(f"{name:13} has a count on one side only")
