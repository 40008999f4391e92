"""Authenticates a broker's clients: the server's side of SASL, independent of connections.

A broker has one `Logins`; `begin` makes a `Login` for each attempt of a connection. Its `step`
takes the client's message and returns the answer, until the login is `done` or `step` raises
`LoginRefused`. Then `principal` is Kafka's principal without `User:`, and `ends_at` is the end of
its validity, by the monotonic clock; None: unlimited. Belongs to the event loop.

Rule 1: whatever a client sends, `step` raises only `LoginRefused`. Its `message` is for the client
        and the same for every reason; its `why` is for the log.
Rule 2: neither an answer's contents nor its timing reveals which users exist.
Rule 3: what a client can make the broker compute or store is bounded, for each address and in
        total.
"""
