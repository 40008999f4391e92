"""A table's first run begins with nothing: files of anybody else are not added to.

Rows that are there without a commit log were landed by another loader, or by this one before its
log was lost. To read the topic from its beginning would put all of them there twice, under names
that may be those of files that are there.
"""

from loader.commit.layout import table_state
from loader.errors import LoaderError
from loader.store.store import Entry, Store


def check_untouched(store: Store, table: str) -> None:
    """Raises LoaderError if readers of the table would find anything already."""
    found = _visible_file(store, table)
    if found is None:
        return
    state = store.uri(table_state(table))
    raise LoaderError(
        f"table {table}: {store.uri(table)} has files already, such as"
        f" {found.path.removeprefix(f'{table}/')}, and there is no commit log at {state}: all would"
        " be loaded again beside them; put the log back, move the files away, or use another `root`"
    )


def _visible_file(store: Store, folder: str) -> Entry | None:
    """One that readers do not pass over. Looks no further than to the first."""
    for entry in store.list(folder):
        if entry.name.startswith(("_", ".")):
            continue
        found = _visible_file(store, entry.path) if entry.is_folder else entry
        if found is not None:
            return found
    return None
