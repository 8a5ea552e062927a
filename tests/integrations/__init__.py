"""truerank inside training loops."""
