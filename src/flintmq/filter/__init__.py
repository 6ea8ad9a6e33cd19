"""Tag and SQL92 subscriptions as pure predicates."""
