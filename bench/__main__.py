"""`python -m bench`: measures brokers side by side and prints medians, spreads and ratios.

Everything it makes lies in one temporary directory, which goes when it ends; so do the brokers.
"""

import json
import resource
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console

from bench import machine, report
from bench.brokers import APACHE_KAFKA, KINDS, Kind, version
from bench.profile import FULL, QUICK, Results
from bench.profiles import PROFILES
from bench.rounds import measure
from tests.apache_kafka import kafka_classpath, why_no_kafka
from tests.server_process import ServerFailed

_WIDTH = 160  # a table is not folded when it goes into a file


def _available(wanted: tuple[str, ...]) -> Mapping[str, Kind]:
    kinds = {name: kind for name, kind in KINDS.items() if not wanted or name in wanted}
    if APACHE_KAFKA in kinds and kafka_classpath() is None:
        print(f"without {APACHE_KAFKA}: {why_no_kafka()}", file=sys.stderr)
        del kinds[APACHE_KAFKA]
    return kinds


def _list_profiles() -> None:
    for profile in PROFILES.values():
        print(f"{profile.name:20} {profile.about}")


@click.command()
@click.argument("names", nargs=-1, metavar="[PROFILE]...")
@click.option("--list", "only_list", is_flag=True, help="Name the profiles and end.")
@click.option("--quick", is_flag=True, help="Seconds instead of minutes: shows that it works.")
@click.option("--rounds", type=click.IntRange(1), help="Default 3; 1 with --quick.")
@click.option("--broker", "brokers", multiple=True, type=click.Choice([*KINDS]), help="Only this.")
@click.option("--case", "cases", multiple=True, help="Only cases with this in their names.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all samples.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the tables for a page.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/var/tmp"),
    show_default=True,
    help="On the disk to measure with; 30 GB free for the recovery profile.",
)
def main(  # noqa: PLR0917 -- one for each option
    names: tuple[str, ...],
    only_list: bool,
    quick: bool,
    rounds: int | None,
    brokers: tuple[str, ...],
    cases: tuple[str, ...],
    json_file: Path | None,
    markdown: Path | None,
    directory: Path,
) -> None:
    """Measures PROFILEs (default: all) on Penstock and Apache Kafka, in turns."""
    if only_list:
        _list_profiles()
        return
    for name in names:
        if name not in PROFILES:
            raise click.BadParameter(f"no profile {name!r}; there are {', '.join(PROFILES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is cleaned up
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # inherited by the brokers
    kinds = _available(brokers)
    rounds = rounds or (1 if quick else 3)
    described = machine.description(directory)
    command = shlex.join(["python", "-m", "bench", *sys.argv[1:]])
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    all_results: list[Results] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as work:
        files = Path(work) / "files"
        files.mkdir()
        for name in names or PROFILES:
            print(name, file=sys.stderr)
            try:
                results = measure(
                    PROFILES[name],
                    kinds,
                    QUICK if quick else FULL,
                    rounds=rounds,
                    directory=Path(work),
                    files=files,
                    only=cases,
                )
            except ServerFailed as failure:
                raise click.ClickException(f"a broker did not start: {failure}") from None
            all_results.append(results)
            console.print(f"{name}: {results.profile.about}", style="bold")
            console.print(report.table(results))
    circumstances = {"command": command, **described, **{name: version(name) for name in kinds}}
    if json_file is not None:
        profiles = {each.profile.name: report.as_json(each) for each in all_results}
        json_file.write_text(json.dumps({**circumstances, "profiles": profiles}, indent=1) + "\n")
    if markdown is not None:
        about = "".join(f"- {key}: `{value}`\n" for key, value in circumstances.items())
        markdown.write_text("\n".join([about, *map(report.markdown, all_results)]))
    _end(console, all_results, circumstances)


def _end(console: Console, results: list[Results], circumstances: Mapping[str, str]) -> None:
    for key, value in circumstances.items():
        console.print(f"{key:14} {value}")
    judged = [verdict for verdict in report.verdicts(results) if verdict is not None]
    if judged:
        console.print(f"{'goals':14} {sum(judged)} of {len(judged)} met")
    failed = report.failures(results)
    if failed:
        console.print(f"{'failures':14} {failed}")
        sys.exit(1)


if __name__ == "__main__":
    main()
