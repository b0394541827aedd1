"""Every figure, table and claim of the paper, regenerated."""
