"""Writes what is made from the code: tables of keys, completion, pages of roles, the code map.

    python -m docs.reference           writes what has changed (`make reference`)
    python -m docs.reference --check   names what is out of date, and fails (part of `make check`)

The code map is not committed, as every docstring changes it; the others are.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from audit.cures import runbook
from client.connection.security import Security
from cluster.session.security import ZooKeeperSecurity
from deploy import role_pages
from docs import code_map
from ground.http.page_locks import PageLocks
from ground.http.security import HttpSecurity
from ground.tls.server import ListenerTls
from penstock import command_outlines
from penstock.cli import outlines
from penstock.config.pages import links, with_tables
from penstock.config.reference import KINDS, Unexplained, sections

DOCS: Final = Path(__file__).resolve().parent
CONNECTIONS: Final = DOCS / "secure-connections.md"


class Connections(msgspec.Struct):
    """What programs share, by the names that most of them have for it."""

    security: Security = Security()
    """Connections to brokers."""
    registry_security: HttpSecurity = HttpSecurity()
    """Requests to the registry; to an audit and to other programs' pages, too."""
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    """Connections to ZooKeeper."""
    tls: ListenerTls | None = None
    """The certificate of a server: the audit, the registry, a broker's listener."""
    http: PageLocks = PageLocks()
    """Access to the pages of an agent, a broker or a mirror."""


def committed() -> Iterator[tuple[Path, str]]:
    """Each file that is made from the code and committed, with the text that it should have."""
    shared = sections(Connections)
    yield CONNECTIONS, with_tables(CONNECTIONS.read_text(), shared)
    elsewhere = links(shared, CONNECTIONS.name)
    for program, struct in KINDS.items():
        page = page_of(program)
        yield page, with_tables(page.read_text(), sections(struct), elsewhere)
    yield outlines.FILE, command_outlines.text()
    yield DOCS / "runbook.md", runbook.markdown()
    for role in role_pages.roles():
        yield role / "README.md", role_pages.page(role)


def page_of(program: str) -> Path:
    """The page with the program's keys."""
    own = DOCS / f"{program}-configuration.md"
    return own if own.exists() else DOCS / f"{program}.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.reference", allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    checks = parser.parse_args().check
    try:
        stale = {path: text for path, text in committed() if _text(path) != text}
    except Unexplained as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in stale.items():
        print(f"{path.relative_to(DOCS.parent)}: {'out of date' if checks else 'written'}")
        if not checks:
            path.write_text(text)
    if not checks:
        code_map.PAGE.write_text(code_map.page())
    elif stale:
        print("run `make reference`, and commit what it writes")
    return 1 if checks and stale else 0


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
