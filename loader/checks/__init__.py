"""Whether the files of a table are still what its runs have committed, and who is told."""
