"""Files and directories that survive a crash, are locked, or are read again."""
