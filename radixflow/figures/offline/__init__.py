"""Pages that replay a run without a server: one HTML file that needs nothing else."""
