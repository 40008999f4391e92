"""`penstock up`: runs the whole pipeline on one machine, in one directory, and keeps it running."""
