"""What a broker does by the clock, and its scrub."""
