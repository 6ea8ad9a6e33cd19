"""Tag and SQL92 subscriptions as pure predicates.

    "a || b"        ─► tags ──────────────────────────────────────────► hashes and tags
    "price > 10"    ─► sql_tokens ► sql_parse ► sql_tree ► sql_eval ──► a function of properties
                                                    sql_values, java_numbers: how Java compares

`bloom` gives each filter its bits in the bit map of a message.
"""
