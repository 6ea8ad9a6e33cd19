"""Who may come in: hosts, login, sessions, CSRF tokens, headers and limits."""
