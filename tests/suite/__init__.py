"""`make test`: the stages, what each needs, and the scheduler that runs them side by side."""
