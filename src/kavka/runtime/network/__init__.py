"""Sockets: the Network port, and a broker's listeners.

network            the Network port; client_network: this one or the one over TLS, as a client needs
ports              sockets bound to an address
socket_server      listening sockets, processors and request_channel of one broker, put together; what becomes of
                   a connection decides `broker.acceptor`
connection_limits_by_host
                   bounds where hosts are given by name
connection_log     log lines about connections
processor          calls the handler for many connections; processor_thread: one with its own thread;
                   processor_ports: what both are given
memory_shortage    who goes on while half-received requests hold too much
socket_connection  one socket of a processor: when it is read, how its answers go out
request_channel    a request's way from its socket to its handler, with Kafka's request metrics
"""
