"""Speed and memory against the bare matrix product and against other tools, as ratios in one run."""
