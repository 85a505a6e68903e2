"""What the group coordinator and the transaction coordinator both need.

decide/  which partition keeps a key and whether an order still counts; patterns over names
"""
