"""What keeps one peer from taking more than its share: caches, budgets, log rates."""
