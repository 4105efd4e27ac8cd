"""The paper's figures, one file each, and the table of its claims.

A figure declares its curves; running them, drawing and writing is common to all (`study.py`, `drawing.py`).
"""

FIGURES = ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7")
