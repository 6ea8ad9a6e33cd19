"""`flintmq acl`: users, policies and accounts, of running brokers and in files."""
