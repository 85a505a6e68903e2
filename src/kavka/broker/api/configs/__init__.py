"""Settings of topics, brokers, groups and metrics subscriptions, levels of loggers, and clients' quotas.

describe_configs, list_config_resources    which are in force, and where each comes from
alter_configs              replaces all that a resource sets itself
incremental_alter_configs  changes some of it
resources                  not an API: what has settings
alteration                 not an API: what the two requests that change settings share
describe_client_quotas, alter_client_quotas    quotas (none are in force)
"""
