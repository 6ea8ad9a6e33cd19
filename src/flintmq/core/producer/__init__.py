"""What a producer decides: the message's form, its queue, retries, transactions, trace."""
