"""Bodies of messages as columns: schemas in four languages, and what does not fit.

schema ► body_schema ─┬─ Spark's DDL, JSON Schema ► json_bodies      in the JVM, by from_json
                      └─ Avro, Protobuf ► binary_bodies              in Python, by an Arrow UDF
frame + schema ► decode_frame ► columns, and why a row has none
                    └─► quarantine: those rows apart, for each micro-batch
"""
