"""This broker's state for others to see: metrics, and whether it is ready. Imported only if `metrics.listener` is set,
but for `readiness`.
"""
