"""A mirror that leaps over gaps, and tells nobody."""

from tests.campaigns.mirror.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(leaps=True))
