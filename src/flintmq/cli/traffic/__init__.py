"""Commands that send and consume many messages: JSON lines, consuming as a group, loads."""
