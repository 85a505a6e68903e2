"""The simulator: the very code of brokers, controller, ZooKeeper and clients in one process, with virtual time.

From top to bottom; each may import those below it:

runs/       seeds, campaigns, recordings, failing runs made smaller
scenarios/  named stories, and the words in which they are told
world       all that follows put together, from one seed
faults/     what goes wrong
clients/    who produces and consumes
rules/      what must hold after every step
host/       time, links, disks, ZooKeeper: what the code runs on

Faults and clients are given the world, so they name it as a type; they do not import it when they run.
"""
