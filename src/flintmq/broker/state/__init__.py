"""Tables and schedules together, and how a message gets into either."""
