"""What is done to a data folder by hand: check it, copy it, export its reports."""
