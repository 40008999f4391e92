"""Batches are written anew, with other timestamps and a right CRC."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(makes_anew=True))
