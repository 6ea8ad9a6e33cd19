"""What users import: producer, consumers, admin.  One asyncio engine and two faces."""
