"""What members of a consumer group share: requests, subscriptions, rebalance, results."""
