"""The simple consumer: receive, acknowledge, hide for longer."""
