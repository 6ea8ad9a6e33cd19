"""What several commands need: connection options, output, times, server processes."""
