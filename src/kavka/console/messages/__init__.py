"""Records of a topic to look at.

Decides which records are read and how bytes become text. Must not know pages; commits nothing and joins no group.

search           records found within bounds, and the live tail
decoding         what a key or a value says, as text that can be shown
schema_registry  schemas by their ids
schema_formats   Avro, Protobuf and JSON Schema: bytes to a value
"""
