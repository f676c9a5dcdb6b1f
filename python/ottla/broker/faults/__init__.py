"""Requests that are answered otherwise than their handlers would, because a test asks for it.

Nothing here is in the way while nobody asks: then the handlers are called as ever (`dispatch`).
"""
