"""What a broker remembers of pops: messages in flight, held pops, ordered queues, request modes."""
