"""Every copy begins a thousand offsets later than its source."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(shifts=True))
