"""What every client has: settings, connections, routes, heartbeats and its thread."""
