"""What ZooKeeper's two sides decide. Bytes, values and times come in, results go out.

A module here must not know a clock, an event loop, a socket, a thread or randomness; `make check` sees to it.

tree                sessions, nodes, versions, watches: what every operation does
jute                the wire protocol as bytes, both directions
session_protocol    the server's side of one connection: frames in, replies out, in order
four_letter_words   what an administrator is answered who sends four letters
client_watches      the watches of a client's session, so that they can be left again on another connection
connect_string      what `zookeeper.connect` says: servers and chroot
"""
