"""The directory of a pipeline on this machine, which `--dir` names."""
