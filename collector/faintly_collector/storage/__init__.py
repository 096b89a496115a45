"""The data folder: reports in, sealed files and sketches, each report counted once."""
