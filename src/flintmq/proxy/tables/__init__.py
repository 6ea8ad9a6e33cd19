"""What the proxy remembers: clients, half messages, receipts it renews, settings of brokers."""
