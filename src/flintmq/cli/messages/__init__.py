"""What commands read and write of many messages: JSON lines, printing, reading for reports."""
