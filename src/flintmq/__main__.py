"""`python -m flintmq` is the `flintmq` command."""

from __future__ import annotations

from flintmq.cli.main import main

if __name__ == "__main__":
    main()
