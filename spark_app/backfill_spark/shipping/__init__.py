"""A source's log brought into a target: which files that are there. Rules are in the core (`log_shipping`); rows are not read here."""
