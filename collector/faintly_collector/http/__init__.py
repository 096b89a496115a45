"""The service: routes, access, limits, and the process that serves them."""
