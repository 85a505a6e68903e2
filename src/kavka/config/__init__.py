"""Settings: every one that Kafka knows, typed, with Kafka's defaults, ranges and rules for changing them.

setting.py          one setting: types, ranges, texts to values and back
broker_settings.py  the table of a broker's settings, kavka's own at its end
broker.py           BrokerConfig: a broker's values as it runs
listeners.py        listeners and their advertised addresses
sasl.py             which mechanisms each listener has, who may log in, and how the broker itself does
kerberos.py         whose tickets a listener takes, and which rules make names of principals
oauthbearer.py      which tokens a listener believes, and where the keys are that they are signed with
tls.py              TLS settings of one listener, ssl.* and listener.name.L.ssl.*
zookeeper.py        TLS settings of connections to ZooKeeper, zookeeper.ssl.*
effect.py           what each setting does here: in force, at start only, without effect, or refused
topic.py            TopicConfig: a topic's values, its overrides over its broker's
group.py            the tables of a group's and of a metrics subscription's settings
remembered.py       what is made of a group's settings, until they are others
host_layout.py      what each of several brokers of one host has of its own
properties.py       the syntax of server.properties
describe.py         what DescribeConfigs answers
alter.py            what AlterConfigs and IncrementalAlterConfigs do
container.py        what the environment of a container asks for
documentation.py    what each setting is for; loaded only when asked
similar.py          the name that was probably meant by a misspelt one
"""

from kavka.config.broker import BrokerConfig
from kavka.config.topic import TopicConfig

__all__ = ["BrokerConfig", "TopicConfig"]
