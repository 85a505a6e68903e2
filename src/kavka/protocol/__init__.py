"""Kafka's wire protocol: bytes on a connection to typed messages and back. It knows no broker, log or socket.

schema.py      what a message looks like             messages/   one module per message (written by tools/)
compiler.py    tables to functions, per version      codec.py    decode, encode, encode_chunks
api.py         API keys, versions, headers           frames.py, connection.py   bytes to requests, answers in order
request_pipeline.py   requests and answers of who asks: the client, and through peer.py other brokers
"""
