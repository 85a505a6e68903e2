"""Runtime: the real hosts of the ports: sockets, disks, event loop."""
