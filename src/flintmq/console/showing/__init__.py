"""From values to HTML: templates, numbers and times, paging, charts, live parts."""
