"""Records of a topic to look at.

Decides which records are read and how bytes become text. Must not know pages; commits nothing and joins no group.

search           records found within bounds, and the live tail
masking          a record as somebody sees it who may not see all of it
expression       a filter in CEL, bounded, and the names of fields that are offered for it
apart            where an expression is worked out that could take long (expression_process), so that it can be ended
export           what was found as CSV, JSON lines or Parquet
columns          what of each record a list shows
saved            searches that somebody has given a name
readers          who reads each cluster's messages, for all pages
decoding         what a key or a value says, as text that can be shown

Schemas, and what bytes say by them, are kavka.schema_registry's.
"""
