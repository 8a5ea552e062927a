"""Evaluation: embeddings, neighbor lists, trials or clusters become a Result.

evaluate.py has evaluate, lists.py evaluate_lists, trials.py verify, index_loss.py index_loss.
passes.py plans and runs the passes and computes the scores.
"""
