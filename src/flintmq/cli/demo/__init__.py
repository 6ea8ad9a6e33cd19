"""`flintmq demo`: one app on Spark and on threads, with a broker of its own, and its checks."""
