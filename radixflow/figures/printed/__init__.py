"""Pictures for print, drawn by matplotlib: SVG, PDF and PNG."""
