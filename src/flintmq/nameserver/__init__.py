"""Who is in the cluster and which broker has which topic."""
