"""Who asks, what became of a request, and how an answer is built."""
