"""What `.option(…)` may say: tables of options, their values and their errors."""
