"""Bytes ↔ values: frames, commands, headers, bodies, records and the sans-IO connection."""
