"""How long whoever guesses has to wait, and who does not."""

from audit.http.access.login_attempts import FORGOTTEN_S, FREE, LONGEST_S, MOST, MOST_AT_ONCE, Tries


def guess(tries: Tries, address: str, user: str, now: float, *, right: bool = False) -> None:
    tries.begin(address)
    tries.end(address, user, now, right=right)


def test_the_pause_doubles_and_has_an_end() -> None:
    tries, now, pauses = Tries(), 0.0, []
    for _ in range(30):
        pauses.append(tries.pause("10.0.0.1", "alice", now))
        now += pauses[-1]
        guess(tries, "10.0.0.1", "alice", now)
    assert pauses[: FREE + 4] == [0.0] * (FREE + 1) + [2.0, 4.0, 8.0]
    assert pauses[-1] == LONGEST_S
    assert tries.pause("10.0.0.1", "bob", now) > 0
    assert tries.pause("10.0.0.2", "bob", now) == 0
    guess(tries, "10.0.0.1", "alice", now + FORGOTTEN_S + LONGEST_S)
    assert tries.pause("10.0.0.1", "alice", now + FORGOTTEN_S + LONGEST_S) == 0


def test_who_has_a_login_of_his_own_guesses_no_faster() -> None:
    tries = Tries()
    for _ in range(FREE + 1):
        guess(tries, "10.0.0.1", "alice", 0)
        guess(tries, "10.0.0.1", "mallory", 0, right=True)
    assert tries.pause("10.0.0.1", "mallory", 0) > 0


def test_a_user_is_not_locked_out_where_he_was_before() -> None:
    tries = Tries()
    guess(tries, "10.0.0.1", "alice", 0, right=True)
    for each in range(20):
        guess(tries, f"10.0.1.{each}", "alice", 0)
    assert tries.pause("10.0.0.1", "alice", 0) == 0
    assert tries.pause("10.0.0.2", "alice", 0) > 0


def test_of_one_address_only_so_many_are_under_way() -> None:
    tries = Tries()
    for _ in range(MOST_AT_ONCE):
        assert tries.pause("10.0.0.1", "", 0) == 0
        tries.begin("10.0.0.1")
    assert tries.pause("10.0.0.1", "", 0) == 1
    assert tries.pause("10.0.0.2", "", 0) == 0
    tries.end("10.0.0.1", "", 0, right=None)
    assert tries.pause("10.0.0.1", "", 0) == 0


def test_what_is_remembered_is_bounded() -> None:
    tries = Tries()
    for each in range(MOST + 100):
        guess(tries, f"a{each}", "", 0)
    assert len(tries._mistakes) == MOST
