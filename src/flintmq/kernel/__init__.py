"""The hot loops over bytes: one face, two implementations.

    layout, checksum   what records look like, and how bodies are summed
    python             every loop in plain Python: the specification, and what is read first
    choice             which implementation this process uses, and what happens when one fails
    face               `loops`: the functions the layers above call

The compiled implementation is the module `flintmq_native`, written in Rust in ``native/``.  It is
optional.  A function of it takes what its twin in `python` takes, and gives the same values, the
same errors and the same bytes; the tests hold both together.

Invariant: nothing outside this package knows which implementation runs, but for
`flintmq.arrow.plain_pages`, which has a quicker way than the plain loop.
"""
