"""The drop-ins beside what they replace."""
