"""The data source ``rocketmq``: plans and checkpoints in the driver, reading in tasks."""
