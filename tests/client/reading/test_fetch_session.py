"""Sessions, from the side of who asks: what is named, and what a leader then knows."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from client.reading.fetch_session import FetchPosition, FetchSession, Key, next_epoch
from wire.errors import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse

KEYS = [(topic, index) for topic in ("t", "u") for index in range(3)]


def wanted(offset: int) -> FetchPosition:
    return FetchPosition(leader_epoch=1, offset=offset, last_epoch=0, log_start=0, max_bytes=9)


def named(request: FetchRequest) -> dict[Key, int]:
    return {
        (topic.topic, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[Key]:
    return {
        (each.topic, index) for each in request.forgotten_topics_data for index in each.partitions
    }


def answer(session: int, code: ErrorCode = ErrorCode.none) -> FetchResponse:
    return FetchResponse(error_code=code, session_id=session, responses=())


class Leader:
    """What a session is to it, and who says what it should not."""

    def __init__(self) -> None:
        self.number = 0
        self.epoch = 0
        self.session: dict[Key, int] = {}

    def take(self, request: FetchRequest) -> None:
        if request.session_epoch == 0:
            assert request.session_id in {0, self.number}
            assert not request.forgotten_topics_data
            self.number, self.epoch, self.session = self.number + 1, 0, named(request)
            return
        assert (request.session_id, request.session_epoch) == (self.number, self.epoch + 1)
        self.epoch += 1
        assert forgotten(request) <= self.session.keys()
        assert not forgotten(request) & named(request).keys()
        for key in forgotten(request):
            del self.session[key]
        for key, offset in named(request).items():
            assert self.session.get(key) != offset, "nothing new about that"
            self.session[key] = offset


Step = tuple[Key, int | None] | str
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 3))),
        st.sampled_from(["ask", "ask", "lost", "forgotten", "wrong epoch"]),
    ),
    max_size=60,
)


@given(STEPS)
def test_leader_and_follower_always_mean_the_same(steps: list[Step]) -> None:
    asking, leader = FetchSession(2, 100), Leader()
    wants: dict[Key, int] = {}
    for step in [*steps, "ask"]:
        match step:
            case (key, None):
                wants.pop(key, None)
                asking.leave_out(key)
            case (key, int(offset)):
                wants[key] = offset
                asking.want(key, wanted(offset))
            case "lost":
                asking.request(0)
                asking.begin()
            case "forgotten" | "wrong epoch":
                asking.request(0)
                code = (
                    ErrorCode.fetch_session_id_not_found
                    if step == "forgotten"
                    else ErrorCode.invalid_fetch_session_epoch
                )
                assert asking.answered(answer(0, code)) is code
            case _:
                leader.take(asking.request(0))
                assert leader.session == wants
                assert {key: _offset(asking, key) for key in wants} == wants
                assert asking.answered(answer(leader.number)) is ErrorCode.none
        assert asking.wants_any == bool(wants)


def _offset(asking: FetchSession, key: Key) -> int:
    asked = asking.requested(key)
    assert asked is not None
    return asked.offset


def test_without_sessions_each_is_the_first_in_its_turn() -> None:
    asking = FetchSession(2, 100)
    everything: Mapping[Key, int] = dict.fromkeys(KEYS, 5)
    for key in KEYS:
        asking.want(key, wanted(5))
    first = []
    for _ in KEYS:
        request = asking.request(0)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == everything
        first.append(next(iter(named(request))))
        asking.answered(answer(0))
    assert len(set(first)) == len(KEYS)


def test_the_number_of_a_request_goes_round() -> None:
    assert [next_epoch(each) for each in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]
