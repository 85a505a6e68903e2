"""The production host: real sockets, disks, processes and event loops behind the ports. It decides nothing about Kafka.

server             one broker put together: disk, ZooKeeper, listeners
cluster            several brokers in one process
supervisor         a ZooKeeper and brokers as processes of their own
host               brokers of one machine as processes, started again when they end and restarted one by one;
                   host_control: the socket by which it is asked; host_metrics: one port for the metrics of all
settings_file      settings that such a process is started with, for its eyes only
process            signals that end a process in order, failures that end it at once
garbage            when a process looks for garbage among all that it keeps
loop               a broker's event loop, and how many descriptors it may have; loop_watch: when it stood still
disk               the FileSystem port
log_output         how log lines look

network/           sockets: the Network port, and a broker's listeners
tls/               TLS on sockets, and the certificates for it
http/              the servers of the console, the schema registry and the metrics; services that are asked
zookeeper/         ZooKeeper beside a broker, and its connections
"""
