"""Records: the bytes that producers write, logs keep and consumers read.

batch        a record batch (format v2) as a view: header, CRC, patches in place
survey       what all records of a batch say together, without an object for each
validation   what a leader checks before it appends a producer's batch, with Kafka's errors
record       one record inside a batch: key, value, headers, offset, timestamp
builder      records in, batch bytes out
compression  gzip, snappy, lz4, zstd, with bounded inflation
control      the markers that end transactions
"""
