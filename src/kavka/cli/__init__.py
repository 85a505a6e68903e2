"""The command line: brokers to start, and the tools that every day with Kafka needs.

Decides what users type and read: options, help, tables, JSON, errors with a next step, exit statuses (0 done, 1 failed,
2 wrong usage, 130 interrupted). Must not know how a cluster answers: the tools speak Kafka's protocol through
`kavka.client`, so they work against Apache Kafka as well.

    main.py       the entry: `up` and `server` by the short way, all else through typer
    app.py        the table of commands: name, module, section, summary; how one command line is run

    run/          brokers, ZooKeeper, console and schema registry, which run until they are stopped
    cluster/      a cluster as a whole: health, brokers, replicas, settings
    topics/       topics and their records
    groups/       groups of every kind; transactions
    security/     users, rights, quotas, tokens
    understand/   why, trace, replay, simulate: what happened, and what would happen
    pipelines/    pipelines on Spark

    Each command, or group of commands, has a module of its name, which owns its typer app and carries it out.

    options.py log_level.py times.py    options that several commands take; times and durations as people write them
    shared_options.py                   several options that mean one thing, taken by several commands
    help.py       how help looks, and how a mistake on the command line is reported
    output.py     tables, JSON, colours, errors with a next step; table_fit.py: a table in a narrow terminal;
                  setting_hints.py: for a setting that a broker refuses
    missing_names.py
                  topics and groups that are not there, and the names that were probably meant
    login.py      which cluster a command talks to, and how it gets in
    session.py    a client of the cluster that a command talks to

Every module but main.py, login.py and what `kavka up` imports of run/ may import typer; rich, the client and the
runtime are imported inside the functions that need them: `kavka up` has to start fast, and so has every command.
"""
