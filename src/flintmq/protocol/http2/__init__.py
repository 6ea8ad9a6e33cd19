"""HTTP/2 and gRPC on it, as bytes: frames, header blocks, and what a call begins and ends with."""
