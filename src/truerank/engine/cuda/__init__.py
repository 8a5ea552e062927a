"""CUDA engine: tie groups, counts and neighbor searches on the GPUs of this machine.

front.py is the entry; it and the sizes that the schedule reads load without torch.
"""
