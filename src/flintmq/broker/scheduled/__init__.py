"""What is delivered by the clock: delay levels, timers, half messages."""
