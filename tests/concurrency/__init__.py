"""What threads hand to each other: nothing half-made, and nothing that changes afterwards."""
