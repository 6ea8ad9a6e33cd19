"""Where a consumer keeps its offsets: at the broker, or in a file when broadcasting."""
