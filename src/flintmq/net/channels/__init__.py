"""Connections on the loop: one channel each, its session, and a pool of them."""
