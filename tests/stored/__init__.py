"""What earlier versions computed and wrote: digests of results, and files that must still load."""
