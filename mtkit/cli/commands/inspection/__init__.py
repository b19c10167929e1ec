"""Commands: inspection."""
