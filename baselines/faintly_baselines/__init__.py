"""Published methods to compare with: each a mechanism, its proof note beside the code.

The registry loads one when it is named. A client that uses none imports none.
"""
