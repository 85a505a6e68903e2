"""What ZooKeeper's two sides decide. Bytes, values and times come in, results go out.

A module here must not know a clock, an event loop, a socket, a thread or randomness; `make check` sees to it.

tree                the server's whole state: what every operation does to sessions, nodes and watches
sessions            until when each session lasts, and which are over
node                one znode: data, versions, children, owner
path                which paths there may be, and a node's parent
watches             which session watches what, and which hears of a change
access_control      who a session has proved to be, and what a node's list lets it do
jute                the wire protocol as bytes, both directions
session_protocol    the server's side of one connection: frames in, replies out, in order
four_letter_words   what an administrator is answered who sends four letters
client_watches      the watches of a client's session, so that they can be left again on another connection
connect_string      what `zookeeper.connect` says: servers and chroot
"""
