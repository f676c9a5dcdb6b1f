from ottla.embedded import Broker as Broker
from ottla.embedded import Cluster as Cluster
from ottla.reading.scan import scan as scan

__version__: str
