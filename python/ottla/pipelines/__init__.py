"""Ready-made pipelines on Spark, one module each."""
