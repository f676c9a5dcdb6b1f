// Prints what DescribeConfigs answers for a broker, the cluster's default broker and a topic, tab-separated:
//   KIND  NAME  VALUE  SOURCE  TYPE  READ-ONLY  SENSITIVE  SYNONYM,...   (a synonym is name=value@source; a null value is \N)
// Arguments: BOOTSTRAP BROKER-ID. Creates the topic `described`, alters it and the broker, and then describes.
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

public class DescribeConfigs {
    static String text(String value) {
        return value == null ? "\\N" : value;
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var broker = new ConfigResource(ConfigResource.Type.BROKER, arguments[1]);
            var brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, "described");
            admin.createTopics(List.of(new NewTopic("described", 1, (short) 1).configs(
                Map.of("segment.bytes", "2000", "cleanup.policy", "compact,delete")))).all().get();
            admin.incrementalAlterConfigs(Map.of(
                topic, List.of(set("retention.ms", "1234")),
                broker, List.of(set("message.max.bytes", "2222222")),
                brokers, List.of(set("message.max.bytes", "1111111"), set("log.roll.ms", "7200000")))).all().get();
            var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            // The broker takes its dynamic settings when the notification arrives: ask until it has.
            Map<ConfigResource, Config> configs;
            do {
                configs = admin.describeConfigs(List.of(broker, brokers, topic), options).all().get();
            } while (!configs.get(broker).get("message.max.bytes").value().equals("2222222")
                || configs.get(brokers).entries().size() < 2);
            for (var resource : List.of(broker, brokers, topic)) {
                String kind = resource == broker ? "broker" : resource == brokers ? "brokers" : "topic";
                for (ConfigEntry entry : configs.get(resource).entries()) {
                    String synonyms = entry.synonyms().stream()
                        .map(synonym -> synonym.name() + "=" + text(synonym.value()) + "@" + synonym.source())
                        .collect(Collectors.joining(" "));
                    System.out.println(String.join("\t", kind, entry.name(), text(entry.value()), entry.source().name(),
                        entry.type().name(), "" + entry.isReadOnly(), "" + entry.isSensitive(), synonyms));
                }
            }
        }
    }
}
