"""The small texts of pop consumption: receipt handles, lists of offsets, retry topics, journal.

`retry_topics` names the topics that redelivered messages go through, `offset_texts` the three
fields of an answer that list offsets, `receipts` the handle of a message and how a client
makes it from an answer, `journal` what a broker stores of messages in flight.
"""
