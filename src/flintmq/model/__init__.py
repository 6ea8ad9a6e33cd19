"""The nouns: message, queue, topic, route, group.  Frozen values, standard library only."""
