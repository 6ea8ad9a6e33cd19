"""From the files of the comparisons to the page: figures, goals, tables, plots."""
