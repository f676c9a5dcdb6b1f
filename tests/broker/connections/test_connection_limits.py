"""A listener's own bound of connections, changed while the broker runs."""

from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.compat import raw
from tests.peers.ottla import Brokers
from tests.peers.processes import is_readable
from tests.support.client import connect


def test_who_is_too_many_waits_until_there_is_room(brokers: Brokers) -> None:
    name = "listener.name.plaintext.max.connections"
    broker = brokers(settings={name: 2})  # one of them is the controller's own
    with connect(broker) as client, raw.connection(broker.port) as waiting:
        waiting.send(raw.frame(raw.API_VERSIONS, 0))
        configs = [AlterableConfig(name=name, config_operation=0, value="2")]
        resource = AlterConfigsResource(resource_type=4, resource_name=str(broker.id), configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        assert client.call(INCREMENTAL_ALTER_CONFIGS, request).responses[0].error_code == 0
        assert not is_readable(waiting.socket), "it came before that request"
        configs[0].value = "3"
        assert client.call(INCREMENTAL_ALTER_CONFIGS, request).responses[0].error_code == 0
        assert waiting.answer()
