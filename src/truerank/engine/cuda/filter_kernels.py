"""The filters' kernels, by Triton: what truerank.engine.cuda.filtered_count asks for.

Their contracts are those of truerank.engine.cuda.torch_filter, which has them in plain torch.
"""

from truerank.engine.cuda.compare_kernels import compare, settle
from truerank.engine.cuda.near_kernels import count_fine, near_products
from truerank.engine.cuda.refine_kernels import refine

__all__ = ["compare", "count_fine", "near_products", "refine", "settle"]
