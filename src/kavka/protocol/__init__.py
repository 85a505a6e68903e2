"""Kafka's wire protocol: bytes on a connection to typed messages and back. It knows no broker, log or socket.

schema      what a message looks like: fields, types, versions
messages/   one module per message, written by tools/generate_messages.py
compiler    a message's table to Python functions, one pair per version; which malformed fields are refused
codec       messages to bytes and back: the door of this room
primitives  the smallest pieces: variable-length integers, ids
api         API keys with their versions, and headers; api_keys: the numbers
frames      bytes to whole frames
connection  a server's side of a connection: requests in, answers out in order
request_pipeline  the side that asks: requests in flight on one connection, and their answers
peer        requests from one broker to another
sasl_network connections that log in before anything else is sent on them
samples     made-up messages, for tests and the fuzzer
"""
