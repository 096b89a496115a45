"""What operators do to a data folder by hand: check it, copy it, export its reports."""
