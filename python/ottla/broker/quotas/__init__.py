"""Quotas: what clients may use of a broker, and for how long those are not heard who use more (KIP-13, 55, 124, 219,
546, 599).

`rates.py` measures, `limits.py` knows which quota holds for whom, `clients.py` puts both together, `entities.py` is how
quotas are named in the coordination tree and in requests. Nothing of it runs where no quota is set.
"""
