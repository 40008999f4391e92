"""`penstock audit keys`: the keys that journals are signed with, and what is wrong with signatures.

`--export` writes the public keys into a folder that `signatures.keys_dir` of the audit may name:
what was trusted on first use is then the only thing that is trusted.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from audit.api.answers import JournalFault, JournalKey, KeysAnswer
from audit.api.queries import MOST_ITEMS
from ground.files.durable_files import replace_file
from ground.http.client import HttpUrl
from ground.printable import one_line
from ground.signatures.keys import PUBLIC_SUFFIX
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, print_table
from penstock.cli.time_arguments import time_text
from penstock.report.audit_requests import Parameters, ask, audit_option

_COLUMNS: Final = ("host", "program", "journal", "fingerprint", "since", "state")
_FAULT_COLUMNS: Final = ("host", "program", "journal", "fault", "entries", "time")
_PROGRAMS: Final = {"hdfs": "loader", "operator": "audit"}
_SHORT: Final = 16  # letters of a fingerprint, in the table
_HOST: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,252}")
_FOR_ALL: Final = 0o644


@click.command()
@audit_option
@click.option("--cluster", default="", metavar="NAME", help="Only this cluster.")
@click.option(
    "--export",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the public keys into this folder, for `signatures.keys_dir` of the audit.",
)
@json_option
def keys(audit: HttpUrl, cluster: str, export: Path | None, as_json: bool) -> None:
    """List journals with the keys that sign their statements.

    Compare the fingerprints with those on the hosts before you trust an export:
    `openssl pkey -pubin -in signing-key.pub -outform DER | sha256sum`.

    \b
    Example:
        penstock audit keys
        penstock audit keys --export /etc/penstock/keys
    """
    journals, faults = _asked(audit, cluster)
    if export is not None:
        _write(export, journals)
    if as_json:
        print_json(msgspec.to_builtins({"journals": journals, "faults": faults}))
        return
    print_table(_COLUMNS, [_row(journal) for journal in journals])
    if faults:
        print_table(_FAULT_COLUMNS, [_fault_row(fault) for fault in faults])


def _asked(audit: HttpUrl, cluster: str) -> tuple[list[JournalKey], list[JournalFault]]:
    journals: list[JournalKey] = []
    page = 1
    while True:
        parameters: Parameters = {"cluster": cluster, "page": page, "size": MOST_ITEMS}
        answer = ask(audit, "keys", parameters, KeysAnswer)
        journals += answer.journals
        if page * MOST_ITEMS >= answer.page.total or not answer.journals:
            return journals, answer.faults
        page += 1


def _row(journal: JournalKey) -> dict[str, str]:
    return {
        "host": one_line(journal.host),
        "program": _program(journal.tier),
        "journal": one_line(journal.journal),
        "fingerprint": journal.fingerprint[:_SHORT] or "-",
        "since": time_text(journal.since) if journal.since >= 0 else "-",
        "state": "signed" if journal.fingerprint else "unsigned",
    }


def _fault_row(fault: JournalFault) -> dict[str, str]:
    last = fault.first + fault.entries - 1
    return {
        "host": one_line(fault.host),
        "program": _program(fault.tier),
        "journal": one_line(fault.journal),
        "fault": one_line(fault.kind),
        "entries": f"{fault.first:,}" if fault.entries == 1 else f"{fault.first:,} to {last:,}",
        "time": time_text(fault.since),
    }


def _program(tier: str) -> str:
    return _PROGRAMS.get(tier, one_line(tier))


def _write(folder: Path, journals: Iterable[JournalKey]) -> None:
    """Raises Failed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        count = 0
        for path, pem in _files(folder, journals):
            path.parent.mkdir(exist_ok=True)
            replace_file(path, pem.encode(), mode=_FOR_ALL)
            count += 1
    except OSError as error:
        raise Failed(f"{error.filename or folder}: {error.strerror}") from None
    click.echo(
        f"{count:,} keys written to {folder}: they were trusted on first use, so compare them with"
        " the hosts' own",
        err=True,
    )


def _files(folder: Path, journals: Iterable[JournalKey]) -> Iterator[tuple[Path, str]]:
    for journal in journals:
        if not journal.public_key:
            continue
        if not _HOST.fullmatch(journal.host):
            raise Failed(f"a host's name cannot be that of a file: {one_line(journal.host)}")
        program = _program(journal.tier)
        name = program if program.isalpha() else "program"
        file = f"{name}-{journal.fingerprint[:_SHORT]}{PUBLIC_SUFFIX}"
        yield folder / journal.host / file, journal.public_key
