"""`python -m penstock.reference docs`: writes the tables of keys in a folder of pages anew."""

import sys
from pathlib import Path

from penstock.reference.keys import sections
from penstock.reference.pages import with_tables
from penstock.reference.programs import KINDS


def main(folder: Path) -> None:
    for program, struct in KINDS.items():
        page = folder / f"{program}.md"
        before = page.read_text()
        after = with_tables(before, sections(struct))
        if after != before:
            page.write_text(after)
            print(f"{page}: written")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
