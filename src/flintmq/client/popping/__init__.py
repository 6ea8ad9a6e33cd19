"""The calls of pop consumption, which simple consumers and push consumers share."""
