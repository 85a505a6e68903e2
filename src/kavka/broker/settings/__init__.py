"""Settings that change while the broker runs.

Keeps them as ZooKeeper has them, and turns them into what logs and loggers obey. Must not decide what may be changed
(`config.alter`), nor how a change is written (`controller.work.config_admin`).

    dynamic_configs.py  settings of topics, brokers, groups and client metrics, as ZooKeeper has them
    topic_settings.py   from a topic's configuration to what its logs obey
    broker_loggers.py   levels of loggers, as administrators see and change them (KIP-412)
"""
