"""A store directory read beside a broker that may be at work."""
