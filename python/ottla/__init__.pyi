from ottla.embedded import Broker as Broker
from ottla.embedded import Cluster as Cluster

__version__: str
