"""Bytes ↔ values: frames, commands, headers, bodies, message records, and the sans-IO connection."""
