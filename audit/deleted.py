"""What is left to say of a topic that was deleted: nobody can bring any more what it waits for, so
that it is not pending. What is wrong with it stays. Pure."""

from msgspec.structs import replace

from audit.verdicts import State, TopicVerdict


def settled(verdict: TopicVerdict) -> TopicVerdict:
    """The verdict of a topic that is there no more."""
    windows = [
        replace(each, state=settled_state(each.state), waits=[]) if each.waits else each
        for each in verdict.windows
    ]
    return replace(verdict, state=settled_state(verdict.state), windows=windows, waits=[])


def settled_state(state: State) -> State:
    return State.COMPLETE if state is State.PENDING else state
