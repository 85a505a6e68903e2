"""How a broker comes into its cluster.

Decides which cluster id counts, when a broker may take its id, and whether it may start with the log directories that
it finds. Must not know how logs are loaded, nor what the controller does about a broker that came.

    registration.py         the cluster's id; this broker's ephemeral znode
    incarnation.py          the process that had these log directories before: its session, and what its logs may lack
    registrar.py            registers the broker, and does so again when its session expired
    controlled_shutdown.py  has the controller move what this broker leads before it stops
    adoption.py             topics found in log directories are registered in a ZooKeeper that does not know them
    log_directory_check.py  a broker refuses to start where the logs of its former start are missing
"""
