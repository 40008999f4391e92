"""`penstock up`: the whole pipeline on one machine, in one directory, kept running."""
