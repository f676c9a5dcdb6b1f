import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Where a group goes on in a cluster, by what a mirror has noted there.
 *
 *   Translate BOOTSTRAP SOURCE-ALIAS GROUP
 *
 * Prints a line for each partition: its topic, its number, the offset and the metadata, separated by tabs.
 */
public final class Translate {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        Map<TopicPartition, OffsetAndMetadata> found =
                RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(60));
        for (Map.Entry<TopicPartition, OffsetAndMetadata> entry : found.entrySet()) {
            TopicPartition partition = entry.getKey();
            OffsetAndMetadata offset = entry.getValue();
            System.out.println(
                    partition.topic() + "\t" + partition.partition() + "\t" + offset.offset() + "\t" + offset.metadata());
        }
        System.out.println("replication hops\t" + RemoteClusterUtils.replicationHops(properties, arguments[1]));
        System.out.println("upstream clusters\t" + RemoteClusterUtils.upstreamClusters(properties));
    }
}
