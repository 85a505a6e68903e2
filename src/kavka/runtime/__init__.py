"""The production host: real sockets, disks, processes and event loops behind the ports. It decides nothing about Kafka.

server             one broker put together: disk, ZooKeeper, listeners
cluster            several brokers in one process
supervisor         a ZooKeeper and brokers as processes of their own
host               brokers of one machine as processes, started again when they end and restarted one by one;
                   host_control: the socket by which it is asked; host_metrics: one port for the metrics of all
settings_file      settings that such a process is started with, for its eyes only
process            signals that end a process in order, failures that end it at once
loop               a broker's event loop, and how many descriptors it may have; loop_watch: when it stood still
socket_server      listening sockets, processors and request_channel of one broker, put together; what becomes of a
                   connection decides `broker.acceptor`; connection_limits_by_host: bounds where hosts are given by
                   name; connection_log: log lines about connections
processor          calls the handler for many connections; processor_thread: one with its own thread;
                   processor_ports: what both are given; memory_shortage: who goes on while half-received requests
                   hold too much
socket_connection  one socket of a processor: when it is read, how its answers go out
request_channel    a request's way from its socket to its handler, with Kafka's request metrics; which are watched
ports              sockets bound to an address
network            the Network port; tls_network: the same over TLS; client_network: which of them a client needs
tls_channel        a socket whose bytes are encrypted; tls_connection: a listener's connection over one
tls_handshakes     the public-key work of TLS, on a thread of its own, and its bounds
broker_tls         TLS of one broker: tls_listener (of one listener), tls_contexts (certificates as OpenSSL takes them)
security_directory what `kavka up --secure` makes: certificate_authority signs, first_user stores the administrator;
                   secured_listeners: the settings that go with it
zookeeper_tls      certificates of ZooKeeper's connections, both sides; zookeeper_secure_port: a server's TLS port;
                   zookeeper_tickets: a broker's login there with Kerberos
disk               the FileSystem port
documents          what stands at an https: or file: address, read whole
http_services      how any service over HTTP is asked; webhooks: how one is told
zookeeper_host     an embedded ZooKeeper; zookeeper_server: its port, or a process of its own
metrics_server     GET /metrics
trace_export       traces of requests to an OpenTelemetry collector
http_server        the console or a schema registry on its port; http_deadlines: how long a peer of the two may be
                   silent within a request
server_tls         the certificate of the console and of the schema registry, taken anew when its files change
log_output         how log lines look
"""
