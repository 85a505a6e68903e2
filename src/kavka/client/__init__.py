"""A client of Kafka's protocol, on asyncio and the Network port. Must not know the code of brokers, only the protocol.

connection         one connection to one broker: versions, requests in flight
cluster            brokers, topics, leaders, coordinators; retries
producer           records in, batches out
deliveries         records and batches on their way, and where they went
transactions       a transactional producer and its coordinator
consumer           partitions or a group in, records out
group              one member of a consumer group
share_consumer     records of a share group in, acknowledgements out
share_session      what is said in a share session, and what is held in it
share_group_member one member of a share group
admin              topics, configurations, records, log directories
group_admin        groups of every kind: lists, members, offsets, deletions
described_group    one group of a newer protocol, as its coordinator describes it
share_group_admin  share groups: positions, new positions, deletions, records in flight
connected_clients  who writes and reads at which broker, where brokers tell
group_offsets      where a group of any kind is, and setting it elsewhere
transaction_admin  transactions, producers, transactions that hang
acl_admin          access control lists
quota_admin        quotas of clients
user_admin         users' SCRAM credentials
delegation_token_admin
                   delegation tokens
reassignment_plan  where replicas should be, with as little moved as possible
durability         what a cluster can afford to lose now; rolling_restart: brokers one after the other, by its word
decisions          why-records, read from their topic or from brokers' directories
offsets            offsets by time
partitioner        keys to partitions, as in Kafka's Java client
assignor           partitions to the members of a group
answers            error codes in answers, and their exceptions
backoff            how long to wait before the next try
security settings for TLS and SASL; sasl: which exchange a login has (kavka.security)
oauthbearer_tokens
               tokens of OAUTHBEARER: taken, kept, taken anew
oauthbearer_login
               where the settings say that they come from
gssapi_login   tickets of GSSAPI: whose, and with which keys, as the settings say
kerberos_threads
               where Kerberos' library waits for a KDC
login    login and TLS, as Kafka's client settings ask for them; login_files: a login as files for clients;
         client_file: such a file is read
settings the settings of clients

It works with kavka and with Apache Kafka from 2.1 on. The caller passes the network in:

    async with Cluster(SocketNetwork(), parse_bootstrap("localhost:9092")) as cluster:
        async with Producer(cluster) as producer:
            await producer.send("orders", b"value", key=b"key")
"""
