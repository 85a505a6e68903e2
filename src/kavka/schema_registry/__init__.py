"""A schema registry with Confluent's REST interface and Confluent's topic, beside any Kafka.

Decides which schemas there are, which ids they have, and which may follow which. Must not know brokers but through the
client: it runs beside kavka and Apache Kafka alike.

server            a registry on its port: reads the topic, serves, follows what others write; access: who may ask
app               paths, parameters and answers of the interface
registry          what each request means: versions, ids, compatibility, modes, deletion
refusal           the error codes, with their sentences
state             what the topic's records add up to; records: their bytes
topic             the topic, read to its end and written by one at a time
subject_name      subjects and their contexts
schemas           a schema of any type, made ready to be compared
avro              Avro: text to types and back; avro_compatibility: what can be read with what;
                  avro_schema: both together
json_schema       JSON Schema: text to shapes; json_compatibility: what accepts what another one did
protobuf          Protobuf: proto_compiler makes descriptors of texts, proto_text texts of descriptors;
                  proto_compatibility: what can be read with what
incompatibility   one reason against; pairwise: two schemas compared part by part, each pair once

For readers of records, the console and Spark:

client            a client of any registry: schemas by their ids, versions of subjects
formats           Avro, Protobuf and JSON Schema: bytes behind the prefix to a value
"""
