"""Published methods to compare with: each a mechanism, its proof note beside the code.

The registry loads one when a plan or a person names it. A client that uses none imports none.
"""
