"""One module per API key. Each opens with what the API does here, its versions, and what is not supported and why.

A module has `handle(broker, request, message)`: `message` is the decoded request, and what it returns (or what the
awaitable that it returns gives) is the response message of the same API, None for no answer at all.
"""
