"""Settings of topics, brokers, groups and metrics subscriptions; levels of loggers; clients' quotas.

Decides which resource a request means, and refuses those that cannot have settings. Must not know what a setting means
or which values it may have: that is `kavka.config`.

    describe_configs, list_config_resources    which settings are in force, and where each comes from
    alter_configs              replaces all settings that a resource has of its own
    incremental_alter_configs  changes single settings
    describe_client_quotas, alter_client_quotas    quotas of clients
    resources                  no API: what has settings
    alteration                 no API: what both requests that change settings share
    ports                      what these need of the broker
"""
