"""Speed and memory against the bare matrix product and other tools, as ratios in one run."""
