"""What is counted, between two commits or beside what is accepted: printed line by line."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bench.counted import accepted
from bench.counted.commits import NoSuchCommit, checked_out
from bench.counted.counting import counted, why_no_counts
from bench.counted.paths import PATHS, CountedPath
from bench.figures import results

_HERE = "the working tree"


def count_all(root: Path, paths: Sequence[CountedPath]) -> dict[str, int]:
    """Those that can be; of the others, why not is said."""
    found = counted(paths, root)
    for name, why in found.why_not.items():
        print(f"{name} cannot be counted in {root}: {why}", file=sys.stderr)
    return found.counts


def compare(commits: Sequence[str], only: Sequence[str], json_file: Path | None) -> None:
    """Of one commit and the working tree, or of two: what has become slower, the worst first."""
    if not 1 <= len(commits) <= 2:
        raise click.UsageError("--compare takes one commit, or two")
    _needs_valgrind()
    names = [commits[0], commits[1] if len(commits) == 2 else None]
    began = results.circumstances(Path.cwd(), {})
    both = []
    for name in names:
        try:
            with checked_out(name) as root:
                print(f"counting {name or _HERE}", file=sys.stderr)
                both.append(count_all(root, _chosen(only)))
        except NoSuchCommit as error:
            raise click.ClickException(f"{name}: {error}") from None
    _print(*both)
    labels = [name or _HERE for name in names]
    counts = dict(zip(labels, both, strict=True))
    print(f"written to {results.write(began, json_file, counts=counts)}")


def show(only: Sequence[str], json_file: Path | None, *, accept: bool) -> None:
    """Of the working tree, beside what is accepted; or they are from now on."""
    _needs_valgrind()
    began = results.circumstances(Path.cwd(), {})
    with checked_out(None) as root:
        counts = count_all(root, _chosen(only))
    before = accepted.accepted()
    beside = {name: before[name] for name in counts if name in before}
    if accept:
        if set(PATHS) - set(before) - set(counts):
            raise click.ClickException("not all paths have a count: count all of them")
        accepted.accept({name: {**before, **counts}[name] for name in PATHS})
    elif (why := accepted.why_not_comparable()) is not None:
        print(why)
    _print(beside or counts, counts)
    print(f"written to {results.write(began, json_file, counts={_HERE: counts})}")


def _needs_valgrind() -> None:
    if (why := why_no_counts()) is not None:
        raise click.ClickException(why)


def _chosen(only: Sequence[str]) -> list[CountedPath]:
    return [path for path in PATHS.values() if not only or any(word in path.name for word in only)]


def _print(before: accepted.Counts, after: accepted.Counts) -> None:
    both = [name for name in PATHS if name in before and name in after]
    both.sort(key=lambda name: -accepted.change(before[name], after[name]))
    for name in both:
        changed = accepted.change(before[name], after[name])
        word = "slower" if changed > accepted.TOLERANCE else ""
        if changed < -accepted.TOLERANCE:
            word = "faster"
        unit = f"instructions a {PATHS[name].unit}"
        print(
            f"{name:13} {before[name]:>12,} → {after[name]:>12,} {unit:26} {changed:+7.1%} {word}"
        )
    for name in PATHS:
        if (name in before) != (name in after):
            print(f"{name:13} was counted on one side alone")
