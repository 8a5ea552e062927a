"""CUDA engine: tie groups, counts and neighbour searches on the GPUs of this machine.

front.py is the entry; it and the sizes that the schedule reads load without torch.
"""
