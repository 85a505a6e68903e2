"""Guards: what each API asks for where the broker has an authorizer, and what becomes of what is refused.

Decides, for one request, what its caller may not do: that part is taken out of the request before its handler sees it,
and its refusal is put into the answer; or the request is refused as a whole. Listings are filtered in the answer. The
handlers know nothing of it, and a broker without an authorizer never comes here. Must not know what is a right: callers
are asked (`broker.authorization`); which questions an API asks is data (`broker.api_rights`).

A guard is `guard(broker, caller, message)`. It returns None (the handler goes on), a `Then` (the handler goes on, and
its answer is changed), an answer (the handler is not asked), or an awaitable of one of these.

    I1  what is refused never reaches the handler
    I2  where all that a request named is refused, the answer is the guard's: "nothing" often means "all"
    I3  by name, a topic that is denied and one that does not exist look alike

    guard                                             no API: what guards share
    cluster                                           requests that are refused as a whole
    records, groups, streams, transactions, topics, configs, tokens    one module per room
"""
