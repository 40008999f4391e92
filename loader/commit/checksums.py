"""Files that are committed with a checksum of their content, so that it is known whether they are
still what they were.

It is taken of what is staged, just before the commit: rows have been counted by then, so these are
the bytes that were found right.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from loader.manifests import Manifest
from loader.store.store import Store

READERS: Final = 8


def with_checksums(store: Store, manifest: Manifest) -> Manifest:
    """The same with those of all files that it adds. Raises StoreError."""
    if not manifest.adds:
        return manifest
    with ThreadPoolExecutor(min(READERS, len(manifest.adds)), "checksum") as threads:
        sums = list(threads.map(store.checksum, [each.staged for each in manifest.adds]))
    added = zip(manifest.adds, sums, strict=True)
    return msgspec.structs.replace(
        manifest, adds=tuple(msgspec.structs.replace(each, checksum=one) for each, one in added)
    )
