"""The witnesses held against each other: what the model says, and what the real kernel's trace, replay and run say."""
