"""What is unhealthy about a cluster: a module of checks for each subject, all of them in `checks`.

findings  thresholds, and what a check has found so far
report    results by name, and the score that follows from them
"""
