"""Follows systemd's journal: `journalctl` writes entries, which are appended to a file that the
agent then follows like any other (decision 176)."""
