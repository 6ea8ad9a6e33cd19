"""`flintmq demo`: a shop, its broker and one app on Spark and on threads, watched and checked."""
