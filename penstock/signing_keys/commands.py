"""`penstock signing-keys make`, `enrol`, `list` and `revoke`."""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from ground.known_types import known_type
from ground.printable import one_line
from ground.signatures.keys import BadKey, PublicKey
from penstock.cli.failures import Failed
from penstock.cli.output import Row, json_option, print_json, print_table, say
from penstock.cli.time_arguments import TimeType, time_text
from penstock.signing_keys.enrolment import (
    MOST_REASON,
    BadEnrolment,
    EnrolledKey,
    ProgramKey,
    enrol,
    enrolled_keys,
    revoke,
)
from penstock.signing_keys.own_key import PROGRAMS, own_key

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS: Final = ("host", "program", "state", "since", "fingerprint")
_STYLES: Final = {"revoked": "red"}
_MOST_BYTES: Final = 64 * 1024 * 1024


class _Line(msgspec.Struct, frozen=True):
    """A line of the output of `make --json`."""

    host: str
    program: str
    public_key: str


def keys_option(command: F) -> F:
    return click.option(
        "--keys",
        "folder",
        envvar="PENSTOCK_SIGNING_KEYS",
        show_envvar=True,
        type=click.Path(file_okay=False, path_type=Path),
        default="keys",
        show_default=True,
        metavar="DIR",
        help="The folder of enrolled keys.",
    )(command)


def dry_run_option(command: F) -> F:
    return click.option("--dry-run", is_flag=True, help="Print the changes, and make none.")(
        command
    )


@contextmanager
def _reported_errors() -> Iterator[None]:
    try:
        yield
    except (BadEnrolment, BadKey) as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"{error.filename}: {error.strerror}") from None


@click.command("make")
@click.argument("program", type=click.Choice(PROGRAMS))
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    default=socket.gethostname,
    show_default="this host's name",
    metavar="NAME",
    help="The host's name in the ledger: an agent's `host`.",
)
@click.option("--existing", is_flag=True, help="Make no key: exit with 1 if there is none.")
@json_option
def make_key(program: str, directory: Path, *, host: str, existing: bool, as_json: bool) -> None:
    """Make the signing key of a program that has not been started yet, and print its fingerprint.

    DIR is the program's `data_dir`, or the folder of a loader's `signing_key`. Run it as the
    program's user. If there is a key, it is printed. Enrol the key, then start the program: what it
    states before is rejected, where only enrolled keys count.

    \b
    Example:
        penstock signing-keys make agent /var/lib/penstock/agent --json | tee web-1.json
    """
    key = own_key(program, directory, make=not existing)
    if key is None:
        raise Failed(f"{directory} has no signing key")
    if as_json:
        pem = key.pem.decode()
        row = {"host": host, "program": program, "fingerprint": key.fingerprint}
        print_json({**row, "public_key": pem})
    else:
        say(key.fingerprint)


@click.command("enrol")
@click.argument("host", required=False)
@click.option(
    "--key",
    "files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The program's signing-key.pub; may be repeated.",
)
@click.option(
    "--program", default="agent", show_default=True, metavar="NAME", help="The key's program."
)
@click.option(
    "--from",
    "source",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Enrol the keys in the output of `make --json`, with a line for each; - for stdin.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Revoke the program's former keys from now on, as after a reinstallation.",
)
@keys_option
@dry_run_option
@json_option
def enrol_keys(
    *,
    host: str | None,
    files: Sequence[Path],
    program: str,
    source: Path | None,
    replace: bool,
    folder: Path,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Enrol public keys of a host's programs: the audit believes what these keys have signed.

    HOST is the host's name in the ledger. The folder is the one that the audit's
    `signatures.keys_dir` names, or copy it there; the audit reads it again when it changes. Compare
    the fingerprint with the host's own.

    A key that is revoked is not enrolled, and the command fails.

    \b
    Example:
        penstock signing-keys enrol web-1 --key signing-key.pub
        penstock signing-keys enrol --from web-1.json --replace
    """
    with _reported_errors():
        if source is not None and host is None and not files:
            keys = _read(source)
        elif source is None and host is not None and files:
            publics = [PublicKey.of_file(file) for file in files]
            keys = [ProgramKey(host=host, program=program, key=key) for key in publics]
        else:
            raise click.UsageError("pass HOST with --key FILE, or --from FILE")
        result = enrol(folder, keys, replace=replace, now=_now(), dry_run=dry_run)
    groups = {
        "new": result.new,
        "replaced": result.replaced,
        "unchanged": result.unchanged,
        "refused": result.refused,
    }
    if as_json:
        print_json({name: [*map(_short_row, members)] for name, members in groups.items()})
    else:
        for key in result.new:
            say(f"enrolled {_text(key)}")
        for key in result.replaced:
            say(f"revoked {_text(key)}, which was replaced")
        for key in result.unchanged:
            say(f"unchanged: {_text(key)}")
    if result.refused:
        raise Failed(
            *(
                f"{_text(key)} is revoked: remove its line from {folder / 'revoked'} to believe it"
                for key in result.refused
            )
        )


@click.command("list")
@keys_option
@json_option
def list_keys(*, folder: Path, as_json: bool) -> None:
    """List enrolled keys by host, with revoked ones and the times from which they do not count.

    Fingerprints are those of OpenSSL:
    `openssl pkey -pubin -in signing-key.pub -outform DER | sha256sum`.

    \b
    Example:
        penstock signing-keys list --keys /etc/penstock/keys
    """
    with _reported_errors():
        rows = [*map(_row, enrolled_keys(folder))]
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, rows, styles=_STYLES)


@click.command("revoke")
@click.argument("name", metavar="HOST|FINGERPRINT")
@click.option("--program", default="", metavar="NAME", help="Only this program's keys of the host.")
@click.option(
    "--since",
    type=TimeType(),
    metavar="TIME",
    help="The time from which they do not count; default: now. For a stolen key, before the theft.",
)
@click.option("--reason", default="revoked", metavar="TEXT", help="A remark in the file.")
@keys_option
@dry_run_option
@json_option
def revoke_keys(
    *,
    name: str,
    program: str,
    since: int | None,
    reason: str,
    folder: Path,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Revoke the keys of a host, or one key: later statements signed with them are rejected.

    What they have signed before still counts. A key that is revoked already keeps its time, unless
    --since is earlier. The folder's file `revoked` has a line for each.

    \b
    Example:
        penstock signing-keys revoke web-3 --reason "retired"
        penstock signing-keys revoke web-4 --program agent --since 2026-11-20T12:00:00Z
    """
    if len(reason) > MOST_REASON:
        raise click.UsageError(f"the reason is longer than {MOST_REASON} characters")
    with _reported_errors():
        revoked = revoke(
            folder,
            name,
            program=program,
            since=_now() if since is None else since,
            reason=reason,
            dry_run=dry_run,
        )
    if as_json:
        print_json([*map(_row, revoked)])
    elif not revoked:
        say(f"{name} is revoked already")
    else:
        for key in revoked:
            say(f"revoked {_text(key)}")


def _read(source: Path) -> list[ProgramKey]:
    """Reads the output of `make --json` of several programs. Raises Failed, OSError."""
    with sys.stdin.buffer if str(source) == "-" else source.open("rb") as file:
        body = file.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise Failed(f"{source} has more than {_MOST_BYTES:,} bytes")
    keys = []
    for number, text in enumerate(body.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=known_type(_Line))
            key = PublicKey.of_pem(line.public_key.encode())
        except (msgspec.DecodeError, UnicodeError, RecursionError, BadKey) as error:
            raise Failed(
                f"{source}, line {number}: expected a line of `penstock signing-keys make --json`"
                f" ({error})"
            ) from None
        keys.append(ProgramKey(host=line.host, program=line.program, key=key))
    return keys


def _short_row(key: ProgramKey) -> Row:
    return {"host": key.host, "program": key.program, "fingerprint": key.fingerprint}


def _row(key: EnrolledKey) -> Row:
    return {
        "host": one_line(key.host),
        "program": one_line(key.program) or None,
        "state": "enrolled" if key.revoked is None else "revoked",
        "since": None if key.revoked is None else time_text(key.revoked),
        "fingerprint": key.fingerprint,
        "file": one_line(str(key.path)),
    }


def _text(key: ProgramKey) -> str:
    return one_line(f"{key.program or 'a key'} on {key.host}: {key.fingerprint}")


def _now() -> int:
    return time.time_ns() // 1_000_000
