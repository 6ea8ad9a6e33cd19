"""Reports on topics and on dead letters: figures, tables and pictures, whoever counts them.

    topic_figures, dead_letter_figures   what a report holds, and its tables
    topic_files                          a report on topics that writes itself
    topic_count, dead_letter_count       counts messages in this process
    topic_plot, dead_letter_plot         draws pictures, with matplotlib
    report_output                        tables as CSV, times, axes
    amounts                              sizes, rates and durations in a few characters

`spark/pipelines` counts the same figures on Spark, for topics that are too large for one process.
"""
