"""The command line: one broker to start, and the tools that every day with Kafka needs.

    main.py       the entry: `up` and `server` by the short way, all else through typer
    start.py      up, server: from options to a running broker
    app.py        the typer application: commands, options, help
    topics.py configs.py produce.py consume.py dump_log.py    what the commands do
    line_format.py    kcat's format strings, and input lines with keys and headers
    output.py     tables, JSON, colours, errors with a next step
    session.py    a client of the cluster that a command talks to

The tools speak Kafka's protocol through `kavka.client`, so they work against Apache Kafka as well. Exit status: 0 done,
1 failed, 2 wrong usage. Every module but main.py and start.py may import typer; rich, the client and the runtime are
imported inside the functions that need them, because `kavka up` has to start fast.
"""
