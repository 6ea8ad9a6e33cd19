"""Masters and slaves on their sockets: the log of one becomes the log of the others.

    ha_master    slaves connect; each gets the log from where it ends, as it grows
    ha_slave     connects to the master, compares, appends, reports
    returning    a master that comes back asks its slaves what was committed to them

Frames are in `protocol.replication`, decisions in `core.replication`, bytes in `store.raw_log`.
"""
