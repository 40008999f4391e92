"""Who a broker's clients are: the server's side of SASL, without any connection of its own.

A broker has one `Logins`; `begin` makes a `Login` for each attempt of a connection, whose `step` is
given what the client says, and returns what it is answered, until the login is `done` or `step`
raises `LoginRefused`. `principal` is then Kafka's `User:` without the kind, and `ends_at` until
when that is good, by the monotonic clock; None: for ever. Belongs to the event loop.

Rule 1: whatever a client sends, nothing but `LoginRefused` leaves `step`. Its `message` is for the
        client and the same for every reason; its `why` is for the log.
Rule 2: neither what is answered nor how long that takes tells who exists.
Rule 3: what a client can make the broker compute or keep is bounded, by its address and in all.
"""
