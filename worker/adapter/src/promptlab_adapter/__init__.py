"""Runs one Promptolution search for Prompt Lab and speaks JSON lines with its parent.

The package only searches. Scores, checks and model answers come from the parent over a
loopback address; it holds no provider key, no example text and no scorer, and it writes
no file.
"""

PROTOCOL = 1
PROMPTOLUTION = "2.3.0"
