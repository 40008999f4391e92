"""`penstock certificates make`, `sign`, `renew`, `revoke`, `list` and `show`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ground.printable import one_line
from penstock.certificates.authority import (
    USUAL_DAYS,
    Authority,
    Entry,
    Refused,
    make_authority,
)
from penstock.certificates.names import AUTHORITY, BadName
from penstock.certificates.pem_files import NoCertificate, certificates_in
from penstock.certificates.x509 import Purpose
from penstock.cli.failures import Failed
from penstock.cli.output import Row, json_option, print_json, print_table, say

AUTHORITY_VARIABLE: Final = "PENSTOCK_AUTHORITY"
F = TypeVar("F", bound=Callable[..., Any])
LISTED: Final = ("name", "state", "purpose", "hosts", "ends", "days_left")
SHOWN: Final = ("file", "subject", "purpose", "hosts", "ends", "days_left")
_STYLES: Final[Mapping[str, str]] = {"revoked": "red", "ended": "red"}
_DAY: Final = timedelta(days=1)
_MOST_DAYS: Final = 36_500


def authority_option(command: F) -> F:
    return click.option(
        "--authority",
        "directory",
        envvar=AUTHORITY_VARIABLE,
        show_envvar=True,
        type=click.Path(path_type=Path),
        default=".",
        show_default=True,
        metavar="DIR",
        help="The authority's directory.",
    )(command)


def warn_option(command: F) -> F:
    return click.option(
        "--warn-days",
        type=click.IntRange(0, _MOST_DAYS),
        metavar="N",
        help="Exit with 1 if a certificate expires within N days.",
    )(command)


def days_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--days",
        type=click.IntRange(1, _MOST_DAYS),
        metavar="N",
        help=f"Days until it expires; default: {default}.",
    )


@contextmanager
def _reported_errors() -> Iterator[None]:
    try:
        yield
    except BadName as error:
        raise click.UsageError(str(error)) from None
    except Refused as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"{error.filename}: {error.strerror}") from None


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--name",
    default="Penstock authority",
    show_default=True,
    metavar="NAME",
    help="The issuer name in its certificates.",
)
@json_option
def make(directory: Path, name: str, as_json: bool) -> None:
    """Create an authority in a new directory: a key, and a certificate valid for ten years.

    With ca.key, one can impersonate any program that trusts this authority: keep the directory on
    one machine, readable by one user, with a backup. Others need only ca.pem and revoked.pem.

    \b
    Example:
        penstock certificates make ./authority
    """
    with _reported_errors():
        authority = make_authority(directory, name, now=_now())
    if as_json:
        files = {"ca": one_line(str(authority.ca)), "revoked": one_line(str(authority.revoked))}
        print_json({**files, "ends": _text(authority.ends)})
    else:
        expiry_day = _day(authority.ends)
        say(f"created an authority, valid until {expiry_day}: configure {authority.ca} as `ca`")


@click.command()
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A host name or address of the server; may be repeated.",
)
@click.option(
    "--client", "purpose", flag_value=Purpose.CLIENT.value, help="Valid for clients only."
)
@click.option(
    "--server", "purpose", flag_value=Purpose.SERVER.value, help="Valid for servers only."
)
@days_option(f"{USUAL_DAYS} days")
@click.option("--force", is_flag=True, help="Replace an existing certificate.")
@authority_option
@json_option
def sign(
    *,
    name: str,
    hosts: tuple[str, ...],
    purpose: str | None,
    days: int | None,
    force: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Sign a certificate with a new key, both in one file NAME.pem.

    NAME identifies a client to servers. Without --client or --server, the certificate is valid for
    both, as brokers need it.

    \b
    Example:
        penstock certificates sign broker-1 --host broker-1.example --host 10.0.0.11
        penstock certificates sign agent-web-1 --client --days 90 --authority ./authority
    """
    with _reported_errors():
        authority = Authority(directory)
        entry = authority.sign(
            name,
            hosts=hosts,
            purpose=Purpose(purpose) if purpose else Purpose.BOTH,
            days=days,
            now=_now(),
            force=force,
        )
    _say_signed("signed", authority, [entry], as_json=as_json)


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@days_option("as before")
@authority_option
@json_option
def renew(names: tuple[str, ...], days: int | None, directory: Path, as_json: bool) -> None:
    """Renew certificates, for the same hosts, each with a new key.

    NAME.pem is replaced atomically, and programs that use it reload it. The earlier certificate
    remains valid until it expires.

    \b
    Example:
        penstock certificates renew broker-1
    """
    renewed_entries = []
    with _reported_errors():
        authority = Authority(directory)
        try:
            for name in names:
                renewed_entries.append(authority.renew(name, days=days, now=_now()))  # noqa: PERF401
        finally:  # report those that were renewed before a failure
            _say_signed("renewed", authority, renewed_entries, as_json=as_json)


@click.command()
@click.argument("name")
@authority_option
@json_option
def revoke(name: str, directory: Path, as_json: bool) -> None:
    """Revoke a certificate, and all earlier ones of that name.

    The list revoked.pem is replaced. Copy it to the servers, to the path in their key `revoked`,
    which they read before each connection. Open connections stay open.

    \b
    Example:
        penstock certificates revoke agent-web-1
    """
    with _reported_errors():
        authority = Authority(directory)
        certificates = authority.revoke(name, now=_now())
    if as_json:
        serials = [certificate.serial for certificate in certificates]
        print_json({"name": name, "serials": serials, "file": one_line(str(authority.revoked))})
    else:
        count = "1 certificate" if len(certificates) == 1 else f"{len(certificates)} certificates"
        say(f"revoked {name} ({count}): copy {authority.revoked} to the servers")


@click.command()
@warn_option
@authority_option
@json_option
def list_signed(warn_days: int | None, directory: Path, as_json: bool) -> None:
    """List an authority's certificates, the latest of each name, with their expiry.

    \b
    Example:
        penstock certificates list
        penstock certificates list --warn-days 30
    """
    now = _now()
    with _reported_errors():
        authority = Authority(directory)
        entries = authority.latest()
    rows = [_authority_row(authority, now), *(_row(entry, now) for entry in entries)]
    if as_json:
        print_json(rows)
    else:
        print_table(LISTED, [_short(row) for row in rows], styles=_STYLES)
    days_left = [(row["name"], row["days_left"]) for row in rows if row["state"] != "revoked"]
    _fail(_ending(days_left, warn_days))


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@warn_option
@json_option
def show(files: tuple[Path, ...], warn_days: int | None, as_json: bool) -> None:
    """Show the certificates in PEM files of any authority: subject, purpose, expiry.

    \b
    Example:
        penstock certificates show broker-1.pem
        penstock certificates show --warn-days 14 /etc/penstock/*.pem
    """
    now = _now()
    rows: list[Row] = []
    errors: list[str] = []
    for file in files:
        try:
            certificates = certificates_in(file)
        except NoCertificate as error:
            errors.append(str(error))
            continue
        except OSError as error:
            errors.append(f"{file}: {error.strerror}")
            continue
        rows += [
            {
                "file": one_line(str(file)),
                "subject": certificate.subject,
                "issuer": certificate.issuer,
                "purpose": certificate.purpose,
                "hosts": certificate.hosts,
                "begins": _text(certificate.begins),
                "ends": _text(certificate.ends),
                "days_left": _days_left(certificate.ends, now),
                "serial": certificate.serial,
                "fingerprint": certificate.fingerprint,
            }
            for certificate in certificates
        ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(SHOWN, [_short(row) for row in rows])
    _fail(errors + _ending([(row["file"], row["days_left"]) for row in rows], warn_days))


def _authority_row(authority: Authority, now: datetime) -> Row:
    return {
        "name": AUTHORITY,
        "state": "good" if authority.ends > now else "ended",
        "purpose": "authority",
        "hosts": (),
        "ends": _text(authority.ends),
        "days_left": _days_left(authority.ends, now),
        "serial": f"{authority.certificate.serial_number:x}",
        "file": one_line(str(authority.ca)),
    }


def _row(entry: Entry, now: datetime) -> Row:
    state = "good" if entry.ends > now else "ended"
    return {
        "name": entry.name,
        "state": "revoked" if entry.revoked else state,
        "purpose": entry.purpose.value,
        "hosts": entry.hosts,
        "ends": _text(entry.ends),
        "days_left": _days_left(entry.ends, now),
        "serial": entry.serial,
    }


def _short(row: Row) -> Row:
    return {**row, "ends": row["ends"][:10], "hosts": row["hosts"] or None}


def _say_signed(
    done: str, authority: Authority, entries: Sequence[Entry], *, as_json: bool
) -> None:
    now = _now()
    for entry in entries:
        file = authority.file_of(entry.name)
        if as_json:
            print_json({**_row(entry, now), "file": one_line(str(file))})
        else:
            say(f"{done} {entry.name}, valid until {_day(entry.ends)}: {file}")


def _ending(ends: Iterable[tuple[str, int]], warn_days: int | None) -> list[str]:
    """The certificates that expire within `warn_days`, the earliest first."""
    due_names = sorted(
        (days, name) for name, days in ends if warn_days is not None and days < warn_days
    )
    return [f"{name} {_expiry(days)}" for days, name in due_names]


def _fail(problems: Sequence[str]) -> None:
    if problems:
        raise Failed("; ".join(problems))


def _expiry(days: int) -> str:
    if days < 0:
        return "has expired"
    return "expires in less than a day" if not days else f"expires in {days} days"


def _days_left(ends: datetime, now: datetime) -> int:
    return (ends - now) // _DAY


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def _now() -> datetime:
    return datetime.now(UTC)
