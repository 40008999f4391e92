"""The directory of a pipeline on this machine, as `--dir` names it; `penstock up` keeps it."""
