"""Topics and their records.

topics         create, list, describe, alter and delete
produce        records in
consume        records out; consume_share: as a member of a share group
line_format    kcat's formats, and input lines with keys and headers
records        delete the oldest records
dump_log       files of a log, without a broker; group_records: what records of the groups' topic say
"""
