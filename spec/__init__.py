"""The standard: pages, test vectors, and the code that makes and checks them."""
