"""Patterns of the lines that continue an event in stack traces, by language.

A line is judged alone. So a line of an exception's message that looks like any other begins an
event of its own, as does a line of the same form as a first line (Ruby's causes).
"""

from typing import Final

from agent.configuration.lines import Language

_FORMS: Final = {
    Language.JAVA: (
        # java.lang.IllegalStateException: message, below the line of a logger
        r"(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?::\s|$)",
        r"Caused by: |Suppressed: ",
    ),
    Language.PYTHON: (
        r"Traceback \(most recent call last\):",
        r"During handling of the above exception, |The above exception was the direct cause of ",
        # ValueError: message; shop.errors.OutOfStock
        r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Group|Interrupt|Iteration|Warning)(?::\s|$)",
        r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?::\s|$)",
    ),
    Language.GO: (
        r"goroutine \d+ \[|created by |\[signal |runtime stack:$|exit status \d",
        # main.(*cart).add(0xc000012345, {0x1, 0x2}); panic({0x45e0a0?, 0x4b8a10?})
        r"(?:panic|[^\s(.]++\.[^\s(]*+)\(.*\)$",
    ),
    Language.RUBY: (
        # cart.rb:3:in `add'
        r"\S[^:]*:\d+:in [`'][^\n]*'$",
        r"Did you mean\?",
    ),
}
CONTINUATIONS: Final = {
    language: rf"^(?:\s|$|{'|'.join(forms)})" for language, forms in _FORMS.items()
}
