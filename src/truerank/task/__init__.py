"""Task: which gallery items are relevant to a query, junk or excluded, and checks of user input.

Labels, ids, exclusion groups, masks and judgements become, per block of queries, the relevant
and the excluded gallery items. Files are read in io.
"""
