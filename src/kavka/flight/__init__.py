"""The flight recording: a broker's inputs, kept in a ring on its disk, so that its decisions can be made again.

format              entries as bytes
recorder            writes the ring; how much of it is kept
ring_reader         reads it
record_way          what it tells of one record's way to its replicas
recorded_partition  the seam: a Partition that tells the recorder what it is told
"""
