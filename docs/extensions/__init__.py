"""What the site adds to Sphinx: formulas, generated texts, tutorials to take along, checked links."""
