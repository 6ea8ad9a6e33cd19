"""The typed body of every request and answer that carries JSON, one module per subject."""
