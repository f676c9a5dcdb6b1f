"""What others are told of this broker's state: metrics, and whether it is ready. Imported only if `metrics.listener` is
set, but for `readiness`.
"""
