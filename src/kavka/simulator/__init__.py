"""The simulator: the very code of brokers, controller, ZooKeeper and clients in one process, with virtual time.

host/       time, links, disks, ZooKeeper: what the code runs on
clients/    who produces and consumes
faults/     what goes wrong
rules/      what must hold after every step
world       all of it together, from one seed
runs/       seeds, campaigns, recordings, failing runs made smaller
scenarios/  named stories, and the words in which they are told
"""
