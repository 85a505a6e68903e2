"""TLS on sockets, and the certificates for it.

tls_network        the Network port over TLS
tls_channel        a socket whose bytes are encrypted; tls_connection: a listener's connection over one
tls_handshakes     the public-key work, on a thread of its own, and its bounds
broker_tls         TLS of one broker; tls_listener: of one listener
tls_contexts       certificates as OpenSSL takes them
server_tls         the certificate of the console and of the schema registry, taken anew when its files change
security_directory what `kavka up --secure` makes: certificate_authority signs, first_user stores the administrator
secured_listeners  the settings that go with it
"""
