"""What the site adds to Sphinx: formulas, texts that are generated, tutorials to take along, checked links."""
