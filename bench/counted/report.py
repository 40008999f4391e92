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
    """Count the paths; print why any has no count."""
    result = counted(paths, root)
    for name, reason in result.why_not.items():
        print(f"{name} cannot be counted in {root}: {reason}", file=sys.stderr)
    return result.counts


def compare(commits: Sequence[str], only: Sequence[str], json_file: Path | None) -> None:
    """Compare two commits, or one and the working tree; the largest growth first."""
    if not 1 <= len(commits) <= 2:
        raise click.UsageError("--compare takes one commit, or two")
    _needs_valgrind()
    names = [commits[0], commits[1] if len(commits) == 2 else None]
    began = results.circumstances(Path.cwd(), {})
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
    print(f"written to {results.write(began, json_file, counts=counts)}")


def show(only: Sequence[str], json_file: Path | None, *, accept: bool) -> None:
    """Print the working tree's counts beside the accepted ones, or accept them."""
    _needs_valgrind()
    began = results.circumstances(Path.cwd(), {})
    with checked_out(None) as root:
        counts = count_all(root, _selected(only))
    before = accepted_counts.accepted()
    beside = {name: before[name] for name in counts if name in before}
    if accept:
        if set(PATHS) - set(before) - set(counts):
            raise click.ClickException("not every path has a count; run without --case")
        accepted_counts.accept({name: {**before, **counts}[name] for name in PATHS})
    elif (why := accepted_counts.why_not_comparable()) is not None:
        print(why)
    _print(beside or counts, counts)
    print(f"written to {results.write(began, json_file, counts={_HERE: counts})}")


def _needs_valgrind() -> None:
    if (why := why_no_counts()) is not None:
        raise click.ClickException(why)


def _selected(only: Sequence[str]) -> list[CountedPath]:
    return [path for path in PATHS.values() if not only or any(word in path.name for word in only)]


def _print(before: accepted_counts.Counts, after: accepted_counts.Counts) -> None:
    names = [name for name in PATHS if name in before and name in after]
    names.sort(key=lambda name: -accepted_counts.change(before[name], after[name]))
    for name in names:
        changed = accepted_counts.change(before[name], after[name])
        word = "slower" if changed > accepted_counts.TOLERANCE else ""
        if changed < -accepted_counts.TOLERANCE:
            word = "faster"
        unit = f"instructions a {PATHS[name].unit}"
        print(
            f"{name:13} {before[name]:>12,} → {after[name]:>12,} {unit:26} {changed:+7.1%} {word}"
        )
    for name in PATHS:
        if (name in before) != (name in after):
            print(f"{name:13} has a count on one side only")
