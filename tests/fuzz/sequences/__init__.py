"""Well-formed requests in any order, right ones and wrong ones, from many clients at once.

The bytes are always right. What is wrong is what they say: a member id of another group, an epoch of long ago, the id
of a topic that was deleted, a commit of a stranger, two group protocols in one group.

knowledge.py   what answers have told: members, transactions, topics, sessions
requests.py    requests made of what is known, right for the most part
clients.py     connections that send them, and the rules that every answer must keep
asker.py       one connection, over which one request is answered after the other
relations.py   questions in two ways, and answers that must agree
run.py         the same against a broker in a process of its own, and in virtual time; `make fuzz`
administration.py     requests of administrators
streams.py            requests of members of streams groups
themes.py             what sequences beside Apache Kafka are about
side.py               one of the two brokers that are sent the same sequence, and what it told
known_differences.py  where kavka answers otherwise than Kafka, and why
beside_kafka.py       the same sequences to both, and where they part
beside_itself.py      the same sequences in virtual time
mutants.py     bugs put back, and whether a sequence shows them
"""
