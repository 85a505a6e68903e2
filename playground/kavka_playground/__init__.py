"""The cluster in the page: kavka's simulator behind a few choices and clicks, for a browser or a test.

Nothing here decides what brokers do: they, the controller and ZooKeeper are kavka's own, in virtual time.

choices   what a visitor chooses before a run, and the clicks during it; both as a link
traffic   the producer and the reader, and what they were told
run       one run: time, clicks, the same clicks again
picture   what a page shows of a moment
lessons   runs to learn from: what to do, and the claim that the run's trace must show
bridge    what the page's worker calls: JSON in, JSON out
"""
